package nodefence

import "time"

// doubts are the agents' reports about the machine's boots, and their consequences: true and false proofs, disputes,
// and people and remediations that delete NodeFences.
type doubts struct {
	falsely map[string]time.Time // boots that were called dead while they ran, and when
	// when the kubelet of such a boot was first heard after that
	heard map[string]time.Time
	shows time.Time // when the Node begins to show that it was heard
	// until then the supplies' devices report off, whatever the truth is
	lying                                      time.Time
	mute                                       time.Time // until then the kubelet writes no status
	sees                                       bool      // the others' agents reach the API server, and see the machine
	since                                      time.Time // when that began
	proofs, disputes, deletions, seen, persons int
}

// agents prove deaths, rightly and wrongly, and dispute them.
func (w *world) agents() {
	d, n := &w.doubts, &w.node
	runs := w.up && bootName(w.boot) == n.Boot
	if !n.Ready && n.Silent && n.Fenced == "" && n.Disputed == "" {
		switch {
		case !runs && w.chance(0.002):
			n.Fenced = n.Boot
			d.proofs++
		case runs && !w.calm && w.chance(0.003): // all agents are wrong
			w.wrong()
			n.Fenced = n.Boot
			d.proofs++
		}
	}
	if at, wrong := d.falsely[n.Boot]; wrong && runs && w.renewed.After(at) && d.heard[n.Boot].IsZero() {
		// A Lease was renewed. The recovery sees that at its next look, and one of the two patches is sometimes
		// refused.
		d.heard[n.Boot], d.shows = w.now, w.now.Add(time.Duration(w.rng.IntN(2000))*time.Millisecond)
		d.disputes++
		if !w.calm && w.chance(0.7) { // the kubelet loses the API server again a moment later
			w.cutUntil = w.now.Add(time.Duration(40+w.rng.IntN(600)) * time.Second)
		}
	}
	if !d.heard[n.Boot].IsZero() && n.Disputed == "" && !w.now.Before(d.shows) {
		n.Fenced, n.Disputed = "", n.Boot
	}
	n.Seen = nil
	if d.sees && w.up && bootName(w.boot) == n.Boot {
		n.Seen = []string{"n1", "n2"}
		if d.seen++; d.since.IsZero() {
			d.since = w.now
		}
	} else {
		d.since = time.Time{}
	}
	if !w.calm {
		switch {
		case w.chance(0.0003):
			d.lying = w.now.Add(time.Duration(w.rng.IntN(300)) * time.Second)
		case w.chance(0.0005):
			d.sees = !d.sees
		case w.object != nil && w.chance(0.0003): // a remediation has timed out, or somebody deletes it
			w.object.Deleting = true
			w.version++
			w.object.Version = "deleted" + bootName(w.version)
			d.deletions++
		}
	}
}

// wrong records that the boot that the Node shows is called dead, and runs.
func (w *world) wrong() {
	if _, known := w.doubts.falsely[w.node.Boot]; !known {
		w.doubts.falsely[w.node.Boot] = w.now
		if w.node.Silent && w.chance(0.7) {
			w.cutUntil = w.now.Add(time.Duration(w.rng.IntN(120)) * time.Second)
			w.doubts.mute = w.cutUntil.Add(time.Duration(w.rng.IntN(60)) * time.Second)
		}
	}
}

// lies reports whether a device now reports off, whatever the truth is.
func (w *world) lies() bool { return !w.calm && w.now.Before(w.doubts.lying) }

// allowed reports whether storage may be given back to a boot that was cut off and runs. It may if the boot was called
// dead in error, and nothing had disputed that when the Job was created: then no program can know better.
//
// Guard: a boot that was heard is never treated worse than a boot of which nothing is known.
func (w *world) allowed(j *worldJob, boot string) bool {
	made := j.NotAfter.Add(-w.config.Cluster.JobTimeout)
	if _, wrong := w.doubts.falsely[boot]; !wrong {
		return false
	}
	heard, since := w.doubts.heard[boot], w.doubts.since
	if !since.IsZero() && made.After(since.Add(3*time.Second)) {
		return false
	}
	return heard.IsZero() || made.Before(heard.Add(3*time.Second))
}

// waits reports whether a NodeFence waits for a person.
func (w *world) waits() bool {
	o := w.object
	return o != nil && (o.Status.Phase == GivenUp || o.Deleting || w.node.Disputed != "")
}

func (d *doubts) add(o *doubts) {
	d.proofs, d.disputes, d.deletions = d.proofs+o.proofs, d.disputes+o.disputes, d.deletions+o.deletions
	d.seen, d.persons = d.seen+o.seen, d.persons+o.persons
}
