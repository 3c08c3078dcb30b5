/*
 * The tie-break lease of fencing-agent, for spin. The rules are those of docs/lease.md; the
 * numbers in the comments are theirs. README.md says what is and what is not in the model,
 * and `make model KIND=spin` runs it.
 *
 * P proposers, each a half of its own, and one device. A slot has two copies and one writer.
 * A write lands at any time after it was begun; a failed one lands late, or never. A read
 * looks at the slots one after the other. An agent may die at any moment; another one of the
 * same boot starts when its write has ended, one of another boot at any time. Nobody knows
 * the time: that T_expire has passed for an observer is an event, which ends every grant that
 * must have ended by then.
 *
 * The device may become another group's, and come back (SWAPS): what is written meanwhile hits
 * the other one's blocks, and completes.
 *
 * With one of B2, B3, B5, B6, B10, L1, L5, L5END defined, the model lacks that rule (L5END: expiry
 * counts up to the end of a read; B10: only the write that follows such a read is not begun) and
 * spin must find a violation.
 */
#ifndef P
#define P 2
#endif
#ifndef INSTANCES
#define INSTANCES 2     /* of the log */
#endif
#ifndef BALLOTS
#define BALLOTS 2       /* of each node */
#endif
#ifndef BEATS
#define BEATS 1         /* heartbeats of each node */
#endif
#ifndef FAILS
#define FAILS 1         /* writes that fail, in all */
#endif
#ifndef KILLS
#define KILLS 0         /* agents that die, in all */
#endif
#ifndef BOOTS
#define BOOTS 0         /* of those, nodes that reboot */
#endif
#ifndef SWAPS
#define SWAPS 0         /* how often the device becomes another group's, or ours again */
#endif
#ifndef LAPSES
#define LAPSES 1        /* how often T_expire passes for somebody */
#endif

/* A token is a byte: boot * 16 + counter. A grant names a node and its token; 0 is none. */
#define GRANT(i, t) (((i) << 6 | (t)) + 1)
#define HOLDER(g)   (((g) - 1) >> 6)
#define TOKEN(g)    (((g) - 1) & 63)

typedef Rec { byte seq; byte tok; byte inst; byte mbal; byte bal; byte val; byte di; byte dv }

Rec c[2 * P];           /* the device: copies A and B of each slot */
Rec own[P];             /* what each node wants its slot to say */
Rec w[P];               /* the write in flight */
Rec late[P];            /* a failed write that may still land; seq 0: none */
Rec s[P * P];           /* what node i read of slot j last: s[i * P + j] */
byte io[P];             /* 0 none, 1 write in flight, 2 read under way, 3 read completed */
byte at[P];             /* the slot a read looks at next */
byte ph[P];             /* phase of the ballot: 0 none, 1, 2 */
byte todo[P];           /* copies still to be written in this phase (B3) */
bool up[P], wok[P], fresh[P], twice[P], feed[P], lapsed[P], elapsed[P], ripe[P];
bool foreign, blind[P], shown[P]; /* the device is not ours; the read met that; the last read that ended had met it */
byte noted[P * P];      /* sequence of slot j when i's interval of T_expire began */
byte mark[P * P];       /* writes of j up to this sequence were begun before that */
byte landed[P];         /* sequence of the last write that completed */
byte ballots[P], beats[P];
byte fails, kills, boots, lapses, swaps, decided[INSTANCES + 2], i, j, k, n;

#define CP(a, b) a.seq = b.seq; a.tok = b.tok; a.inst = b.inst; a.mbal = b.mbal; a.bal = b.bal; a.val = b.val; a.di = b.di; a.dv = b.dv
#define NEWEST(x) (c[2 * (x)].seq > c[2 * (x) + 1].seq -> 2 * (x) : 2 * (x) + 1)
#define S(x, y) s[(x) * P + (y)]

/* The token moves on when the deadline of a grant, or G without a landed write, has passed (L1). */
inline renounce(x) {
	if
	:: lapsed[x] ->
		lapsed[x] = false; feed[x] = false;
#ifndef L1
		own[x].tok++
#endif
	:: else
	fi
}

/* B1: every write carries everything. B10: none is begun after a read has shown another superblock. */
inline begin_write(x) {
	assert(!shown[x]);
	own[x].seq++; CP(w[x], own[x]);
	wok[x] = false; io[x] = 1
}

/* What has expired by the START of this read (L5). */
inline begin_read(x) { at[x] = 0; io[x] = 2; fresh[x] = wok[x]; ripe[x] = elapsed[x]; blind[x] = foreign }

inline decide(x) {
	assert(decided[own[x].inst] == 0 || decided[own[x].inst] == own[x].val);  /* one value per instance */
	decided[own[x].inst] = own[x].val
}

/* L6: a read proves nothing without a write of this node that landed before it. */
#define LANDED(x) (fresh[x] && S(x, x).seq == own[x].seq)

/* What a completed read says of the latest decision (B7), and whether to feed (L6). */
inline conclude(x) {
	k = 0;                                              /* a later value is pending */
	j = 0;
	do
	:: j < P ->
		if
		:: S(x, j).di > own[x].di -> own[x].di = S(x, j).di; own[x].dv = S(x, j).dv; feed[x] = false
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	do
	:: j < P -> if :: S(x, j).inst > own[x].di && S(x, j).bal != 0 -> k = 1 :: else fi; j++
	:: else -> break
	od;
	if :: own[x].inst > own[x].di && own[x].bal != 0 -> k = 1 :: else fi;
	if
	:: own[x].dv != 0 && own[x].dv == GRANT(x, own[x].tok) && k == 0 && LANDED(x) -> feed[x] = true
	:: else ->
		if :: own[x].dv != GRANT(x, own[x].tok) -> feed[x] = false :: else fi
	fi
}

/* B5: k becomes 1 if the ballot has been overtaken. */
inline overtaken(x) {
	k = 0; j = 0;
	do
	:: j < P ->
		if
		:: j != x && (S(x, j).di >= own[x].inst || S(x, j).inst > own[x].inst || (S(x, j).inst == own[x].inst && S(x, j).mbal > own[x].mbal)) -> k = 1
		:: j == x && S(x, j).seq != own[x].seq -> k = 1
		:: else
		fi;
		j++
	:: else -> break
	od
#ifdef B5
	; if :: ph[x] == 2 -> k = 0 :: else fi
#endif
}

#ifdef L5END
#define RIPE(x) elapsed[x]
#else
#define RIPE(x) ripe[x]
#endif

/* L5: k becomes 1 if the holder of the latest grant is done. */
inline holder_done(x) {
	k = 1;
	if
	:: own[x].dv != 0 ->
		n = HOLDER(own[x].dv);
		if
		:: S(x, n).tok != TOKEN(own[x].dv) -> k = 1                     /* gone or renounced */
		:: S(x, n).tok == TOKEN(own[x].dv) && n != x && RIPE(x) -> k = 1     /* expired */
		:: else -> k = 0
		fi
	:: else
	fi
#ifdef L5
	; k = 1
#endif
}

/* B6: adopt the value of the greatest bal; a value of its own only if there is none and L5 holds. */
inline choose(x) {
	n = 0; k = 0;                                       /* greatest bal, its value */
	j = 0;
	do
	:: j < P -> if :: S(x, j).inst == own[x].inst && S(x, j).bal > n -> n = S(x, j).bal; k = S(x, j).val :: else fi; j++
	:: else -> break
	od;
#ifdef B6
	n = 0;
#endif
	if
	:: n > 0 -> own[x].val = k; own[x].bal = own[x].mbal; k = 1
	:: else ->
		holder_done(x);
		if :: k -> own[x].val = GRANT(x, own[x].tok); own[x].bal = own[x].mbal :: else fi
	fi
}

/* A read is over: what changed has not stood still. */
inline notice(x) {
	j = 0;
	do
	:: j < P -> if :: noted[x * P + j] != S(x, j).seq && j != x -> noted[x * P + j] = S(x, j).seq; mark[x * P + j] = own[j].seq; elapsed[x] = false; ripe[x] = false :: else fi; j++
	:: else -> break
	od
}

inline act(x) {
	notice(x);
	if
	:: ph[x] == 0 -> io[x] = 0; conclude(x)
	:: ph[x] == 1 ->
		io[x] = 0; overtaken(x);
		if
		:: k -> ph[x] = 0
		:: else ->
			choose(x);
			if
			:: k -> ph[x] = 2; todo[x] = (twice[x] -> 2 : 1); begin_write(x)
			:: else -> ph[x] = 0
			fi
		fi;
		if :: ph[x] == 0 -> conclude(x) :: else fi
	:: ph[x] == 2 ->
		io[x] = 0; overtaken(x); ph[x] = 0;
		if
		:: k
		:: else -> decide(x); own[x].di = own[x].inst; own[x].dv = own[x].val
		fi;
		conclude(x)
	fi
}

/* The end of a write that landed: the next copy, or the read of the phase (B2). */
inline wrote(x) {
	io[x] = 0; wok[x] = true; renounce(x); landed[x] = w[x].seq;
	if
	:: ph[x] == 0 -> begin_read(x)
	:: else ->
		todo[x]--;
		if :: todo[x] > 0 -> begin_write(x) :: else -> begin_read(x) fi
	fi
}

inline land(x) {
	if
	:: foreign
	:: else -> k = 2 * x + w[x].seq % 2; CP(c[k], w[x])
	fi
}

/* A read of the next slot. One that meets another superblock shows nothing of the slots. */
inline read_slot(x) {
	if
	:: foreign -> blind[x] = true
	:: else -> k = NEWEST(at[x]); CP(S(x, at[x]), c[k])
	fi;
	at[x]++;
	if
	:: at[x] == P && blind[x] -> shown[x] = true; io[x] = 0; ph[x] = 0
	:: at[x] == P && !blind[x] -> shown[x] = false; io[x] = 3
	:: else
	fi
}

inline propose(x) {
	ballots[x]++;
	if
	:: own[x].inst != own[x].di + 1 -> own[x].inst = own[x].di + 1; own[x].mbal = 0; own[x].bal = 0; own[x].val = 0
	:: else
	fi;
	n = own[x].mbal; j = 0;
	do
	:: j < P -> if :: S(x, j).inst == own[x].inst && S(x, j).mbal > n -> n = S(x, j).mbal :: else fi; j++
	:: else -> break
	od;
	own[x].mbal = (n / P + 1) * P + x;                  /* B4 */
	ph[x] = 1; todo[x] = (twice[x] -> 2 : 1); begin_write(x)
}

inline fail(x) {                                        /* the write in flight fails */
	twice[x] = true;
	io[x] = 0; ph[x] = 0; own[x].seq++                  /* the same copy again */
}

inline die(x) {
	kills++; up[x] = false; feed[x] = false; lapsed[x] = false; elapsed[x] = false; ripe[x] = false; ph[x] = 0; wok[x] = false; fresh[x] = false;
	if :: io[x] != 1 -> io[x] = 0 :: else fi            /* the kernel has the write still */
}

/* B3: the next agent goes on from what the slot holds. */
inline start(x, tokens) {
	k = NEWEST(x);
	CP(own[x], c[k]);
	own[x].tok = tokens; own[x].seq = own[x].seq + 2;
#ifdef B3
	own[x].inst = 0; own[x].mbal = 0; own[x].bal = 0; own[x].val = 0; own[x].di = 0; own[x].dv = 0;
#endif
	twice[x] = true; up[x] = true; landed[x] = 0;
	j = 0;
	do
	:: j < P -> k = NEWEST(j); CP(S(x, j), c[k]); noted[x * P + j] = c[k].seq; mark[x * P + j] = own[j].seq; j++
	:: else -> break
	od;
	shown[x] = false
}

/* T_expire has passed for x since its interval began: a node that landed no write that was begun
   after that has passed its own deadline, and been silent for G (L1). */
inline expire(x) {
	lapses++; elapsed[x] = true; j = 0;
	do
	:: j < P ->
		if
		:: j != x && up[j] && landed[j] <= mark[x * P + j] -> lapsed[j] = true; feed[j] = false
		:: else
		fi;
		j++
	:: else -> break
	od
}

/* B10 */
#ifdef B10
#define OURS(x) true
#else
#define OURS(x) !shown[x]
#endif

#define NODE(x) \
	:: atomic { up[x] && io[x] == 0 && lapsed[x] -> renounce(x) } \
	:: atomic { up[x] && io[x] == 0 && !lapsed[x] && ph[x] == 0 && !feed[x] && ballots[x] < BALLOTS && own[x].di < INSTANCES && OURS(x) -> propose(x) } \
	:: atomic { up[x] && io[x] == 0 && !lapsed[x] && ph[x] == 0 && beats[x] < BEATS && OURS(x) -> beats[x]++; begin_write(x) } \
	:: atomic { up[x] && io[x] == 1 -> land(x); wrote(x) } \
	:: atomic { up[x] && io[x] == 1 && fails < FAILS && late[x].seq == 0 -> fails++; CP(late[x], w[x]); fail(x) } \
	:: atomic { up[x] && io[x] == 1 && fails < FAILS -> fails++; fail(x) } \
	:: atomic { up[x] && io[x] == 2 -> read_slot(x) } \
	:: atomic { up[x] && io[x] == 0 && shown[x] && !foreign -> begin_read(x) } \
	:: atomic { up[x] && io[x] == 3 -> renounce(x); act(x) } \
	:: atomic { up[x] && feed[x] && lapses < LAPSES -> lapses++; lapsed[x] = true; renounce(x) } \
	:: atomic { late[x].seq != 0 -> if :: foreign :: else -> k = 2 * x + late[x].seq % 2; CP(c[k], late[x]) fi; late[x].seq = 0 } \
	:: atomic { up[x] && kills < KILLS -> die(x) } \
	:: atomic { !up[x] && io[x] == 1 -> land(x); io[x] = 0 } \
	:: atomic { !up[x] && io[x] == 1 -> io[x] = 0 } \
	:: atomic { !up[x] && io[x] == 0 && !foreign -> k = NEWEST(x); start(x, c[k].tok + 1) } \
	:: atomic { !up[x] && boots < BOOTS && !foreign && (io[x] == 0 || late[x].seq == 0) -> boots++; \
	            if :: io[x] == 1 -> CP(late[x], w[x]); io[x] = 0 :: else fi; start(x, boots * 16) } \
	:: atomic { up[x] && lapses < LAPSES && !elapsed[x] -> expire(x) }

#ifdef B2
#define EAGER(x) :: atomic { up[x] && io[x] == 1 && ph[x] != 0 && late[x].seq == 0 -> CP(late[x], w[x]); wrote(x) }
#else
#define EAGER(x)
#endif

active proctype world() {
	atomic {
		i = 0;
		do
		:: i < P ->
			c[2 * i].seq = 2; c[2 * i].tok = 1; c[2 * i + 1].seq = 1; c[2 * i + 1].tok = 1;
			own[i].seq = 2; own[i].tok = 1; landed[i] = 2; up[i] = true;
			j = 0;
			do :: j < P -> S(i, j).seq = 2; S(i, j).tok = 1; noted[i * P + j] = 2; mark[i * P + j] = 2; j++ :: else -> break od;
			i++
		:: else -> break
		od;
		i = 0; j = 0; k = 0; n = 0
	}
	do
	NODE(0) EAGER(0)
	NODE(1) EAGER(1)
#if P > 2
	NODE(2) EAGER(2)
#endif
	:: atomic { swaps < SWAPS -> swaps++; foreign = !foreign }
	od
}

/* Never two halves: nobody feeds beside somebody who feeds under another grant. */
#define BOTH(x, y) (feed[x] && feed[y])
#if P > 2
#define SPLIT_BRAIN (BOTH(0, 1) || BOTH(0, 2) || BOTH(1, 2))
#else
#define SPLIT_BRAIN BOTH(0, 1)
#endif
ltl safety { [] !SPLIT_BRAIN }
