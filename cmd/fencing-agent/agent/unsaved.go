package agent

import "github.com/prometheus/client_golang/prometheus"

// unsaved is the metric of what the agent cannot store: the log may be on the same full disk.
type unsaved struct{ gauge *prometheus.GaugeVec }

func newUnsaved(reg prometheus.Registerer) *unsaved {
	u := &unsaved{gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "fencing_agent", Name: "unsaved",
		Help: "1 while the disk does not take what the agent has to remember over a restart: a list of members, the tie-break settings, its Node."}, []string{"what"})}
	reg.MustRegister(u.gauge)
	return u
}

// teller returns what takes the outcome of each attempt to store what. Any goroutine may call that.
func (u *unsaved) teller(what string) func(error) {
	g := u.gauge.WithLabelValues(what)
	return func(err error) {
		if err != nil {
			g.Set(1)
			return
		}
		g.Set(0)
	}
}
