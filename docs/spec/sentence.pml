/*
 * A node that condemns its boot, for spin. The rules are P1 to P6 of docs/lease.md; the
 * numbers in the comments are theirs. README.md says what is and what is not in the model,
 * and `make model KIND=spin` runs it.
 *
 * Two nodes, each a half of its own: a machine with its watchdog, its agents one after the
 * other, and a slot. Each reads the slot of the other. Time passes in ticks. Between any two
 * steps an agent may be killed, at once or after it has hung in the kernel; its write may hang
 * and land later; the link may come or go; the next agent may start, and sees what the kernel
 * counts down, or does not. A driver is late by a tick, once in each countdown, and may refuse
 * the short timeout.
 *
 * With BOTH, either node may condemn itself, by the grant of the other and its words. Without
 * it, node 1 is only a reader that lives, which leaves room for more faults of node 0.
 *
 * With one of the words of the mutants in check.sh defined, the model lacks that rule, and spin
 * must find a violation.
 */
#ifndef W
#define W 6             /* the watchdog's timeout */
#endif
#define T 1             /* that of a sentence, and T_max */
#define R 1             /* so much later may a driver fire */
#ifndef B
#define B (2 * (T + R) + 1)     /* P3 */
#endif
#define WAIT (T + R)            /* P2': of an agent that sees nothing; ticks need no margin */
#define FRESH 1         /* a word that is older is no evidence */
#define RECENT 2        /* so long after it lived a half still counts as one that lives */

#ifndef KILLS
#define KILLS 1
#endif
#ifndef STARTS
#define STARTS 1        /* of agents that see what the kernel counts down */
#endif
#ifndef BLIND
#define BLIND 1         /* and of those that do not */
#endif
#ifndef CUTS
#define CUTS 2          /* how often the link comes or goes */
#endif
#ifndef HANGS
#define HANGS 1         /* writes that hang */
#endif
#ifndef REFUSALS
#define REFUSALS 0      /* of the short timeout */
#endif
#ifndef BOOTS
#define BOOTS 1
#endif
#ifndef STOPS
#define STOPS 1         /* planned ones */
#endif
#ifndef GRANTS
#define GRANTS 0
#endif

/* How far an agent is. From DECIDED on its boot is condemned, as far as it knows. */
#define ABSENT  0
#define WAITS   1       /* P2': with an empty view */
#define LIVING  2
#define DECIDED 3
#define LOWERED 4       /* the timeout was set */
#define READ    5       /* and read back */
#define TOLD    6
#define MUTE    7       /* condemned, and nothing is told */

/* A boot is told by its number + 1; 0 is none. */
typedef Rec { byte boot; byte whose; byte term; byte tok; byte age; bool fed }

bool off[2], running[2], open[2], delayed[2], dying[2];
byte timeout_[2], left[2], stage[2], waited[2], boot[2], tok[2];
bool doomed[2];         /* the kernel's timeout was made short, or the sentence was told */
bool told[2];
byte lived[2];          /* ticks since it lived, up to RECENT + 1 */
Rec slot[2], hung[2];
bool hangs[2];
byte met[2], knows[2], rest[2], fenced[2], reading[2];  /* of each node about the other */
byte grant, granted;    /* the holder + 1, and its token */
bool link = true;
byte kills, starts, blind, cuts, hung_, refusals, boots, stops, grants, k;

#define CONDEMNED(x) (stage[x] >= DECIDED)
#ifdef KEEPS            /* P2, P5: it is fed by whoever counts it, and is counted */
#define STATES(x) (stage[x] == LIVING || CONDEMNED(x))
#define FIT(x) (stage[x] == LIVING || CONDEMNED(x))
#define KNOWN(x) false
#else
#define STATES(x) (stage[x] == LIVING)
#define FIT(x) (stage[x] == LIVING)
#define KNOWN(x) (knows[1 - (x)] == boot[x] + 1)
#endif
#ifdef DISARMS          /* P2: a planned stop disarms, and the rest as before */
#undef STATES
#undef KNOWN
#define STATES(x) (stage[x] == LIVING || CONDEMNED(x))
#define KNOWN(x) false
#define STOPPABLE(x) (stage[x] == LIVING || CONDEMNED(x))
#else
#define STOPPABLE(x) FIT(x)
#endif

#define UP(x) (!off[x] && !dying[x])
/* Both count each other. */
#define CONTACT (link && UP(0) && UP(1) && STATES(0) && STATES(1) && !KNOWN(0) && !KNOWN(1))
#define HOLDS(x) (grant == (x) + 1 && granted == tok[x])
#define LIVES(x) (UP(x) && FIT(x) && (CONTACT || HOLDS(x)))

#define CP(a, b) a.boot = b.boot; a.whose = b.whose; a.term = b.term; a.tok = b.tok; a.age = b.age; a.fed = b.fed

/* What an agent puts into its slot. P6: a sentence is of a boot. */
inline compose(r, x, says) {
	r.boot = boot[x]; r.term = says; r.tok = tok[x]; r.age = 0; r.fed = (LIVES(x) && HOLDS(x) && open[x]);
	if
	:: says > 0 -> r.whose = boot[x] + 1
	:: else -> r.whose = 0
	fi
}

#ifdef LONG             /* P3: whatever was read back is told, with a bound to match */
#define SAYS(x) timeout_[x]
#else
#define SAYS(x) T
#endif

/* The end of a descriptor without the magic character: the countdown begins again. */
inline closed(x) {
	if
	:: open[x] -> open[x] = false; left[x] = timeout_[x]; delayed[x] = false
	:: else
	fi
}

/* P4: a boot that was met, by its name; B is of the reader's clock. */
inline learn(x, of_boot, of_term, since) {
	if
	:: of_boot > 0 && met[x] == of_boot && knows[x] != of_boot ->
		knows[x] = of_boot;
		if
		:: of_term > T -> rest[x] = 2 * (of_term + R) + 1
		:: else -> rest[x] = B
		fi;
#ifdef FROMBEGIN
		if :: rest[x] > since -> rest[x] = rest[x] - since :: else -> rest[x] = 1 fi
#endif
	:: else
	fi
}

/* FENCED of a boot that runs, or that was never condemned. */
inline fence(x) {
	fenced[x] = knows[x];
	assert(off[1 - x] || fenced[x] != boot[1 - x] + 1)
}

inline harmless(x) { assert(!doomed[x]) }

inline fire(x) { off[x] = true; running[x] = false; open[x] = false; dying[x] = false; stage[x] = ABSENT; delayed[x] = false; doomed[x] = false }

inline count_down(x) {
	if
	:: off[x] || !running[x]
	:: !off[x] && running[x] && left[x] > 1 -> left[x]--
	:: !off[x] && running[x] && left[x] == 1 && !delayed[x] -> delayed[x] = true
	:: !off[x] && running[x] && left[x] == 1 -> fire(x)
	fi
}

inline grow(x) {
	if :: LIVES(x) -> lived[x] = 0 :: else -> if :: lived[x] <= RECENT -> lived[x]++ :: else fi fi;
	if :: slot[x].age <= FRESH -> slot[x].age++ :: else fi;
	if :: hangs[x] && hung[x].age <= FRESH -> hung[x].age++ :: else fi;
	if
#ifdef SOONWAIT
	:: stage[x] == WAITS ->
#else
	:: stage[x] == WAITS && !open[x] && !dying[x] ->
#endif
		waited[x]++;
		if :: waited[x] >= WAIT -> stage[x] = LIVING; waited[x] = 0 :: else fi
	:: else
	fi;
	if :: reading[x] > 0 && reading[x] < B -> reading[x]++ :: else fi;
	if
	:: rest[x] > 0 -> rest[x]--; if :: rest[x] == 0 -> fence(x) :: else fi
	:: else
	fi
}

inline tell(x) { told[x] = true; doomed[x] = true }

/* P1: the grant names the other, and its word is new and says that it lives by it. */
#ifdef BOTH
#ifdef SILENCE
#define OTHERS_LIVE(x) (!link)
#else
#ifdef GRANTWORD
#define OTHERS_LIVE(x) (grant == 2 - (x))
#else
#ifdef UNDATED
#define OTHERS_LIVE(x) (grant == 2 - (x) && slot[1 - (x)].fed && slot[1 - (x)].tok == granted && slot[1 - (x)].term == 0)
#else
#define OTHERS_LIVE(x) (grant == 2 - (x) && slot[1 - (x)].fed && slot[1 - (x)].tok == granted && slot[1 - (x)].term == 0 && slot[1 - (x)].age <= FRESH)
#endif
#endif
#endif
#else
#define OTHERS_LIVE(x) (!link)
#endif

/* P2 (1): in memory, before anything else. Its token moves on. */
inline condemn(x) {
	stage[x] = DECIDED; tok[x]++;
#ifdef BOTH
	assert(!CONDEMNED(1 - x) && (LIVES(1 - x) || lived[1 - x] <= RECENT));  /* it leaves a half that lives */
#endif
#ifdef EARLY
	compose(slot[x], x, T); tell(x)         /* told before the timeout was read back */
#endif
	skip
}

/* P2': what the kernel counts down says whether this boot is condemned. */
inline start(x) {
	tok[x]++;
#ifdef NOLOOK
	stage[x] = LIVING
#else
	if
	:: running[x] && timeout_[x] <= T -> stage[x] = (slot[x].whose == boot[x] + 1 -> TOLD : MUTE)
	:: else -> stage[x] = LIVING
	fi
#endif
}

#ifdef NOLOOK
#define SIGHTLESS LIVING
#else
#define SIGHTLESS WAITS
#endif

#ifdef NOREADBACK
#define SHORT_ENOUGH(x) true
#else
#ifdef LONG
#define SHORT_ENOUGH(x) true
#else
#define SHORT_ENOUGH(x) (timeout_[x] <= T)
#endif
#endif

inline write(x) {
	if
	:: stage[x] == TOLD -> compose(slot[x], x, SAYS(x))
	:: else ->
#ifdef CARRIED
		if :: slot[x].term > 0 -> compose(slot[x], x, slot[x].term) :: else -> compose(slot[x], x, 0) fi
#else
		compose(slot[x], x, 0)
#endif
	fi
}

#ifdef NOBOOT
#define OF(x) met[1 - (x)]
#else
#define OF(x) slot[x].whose
#endif

#define NODE(x) \
	:: atomic { FIT(x) && UP(x) && open[x] && LIVES(x) && (left[x] < timeout_[x] || delayed[x]) -> harmless(x); left[x] = timeout_[x]; delayed[x] = false } \
	:: atomic { stage[x] == LIVING && UP(x) && !open[x] && LIVES(x) -> harmless(x); \
	            running[x] = true; open[x] = true; timeout_[x] = W; left[x] = W; delayed[x] = false } \
	:: atomic { stops < STOPS && STOPPABLE(x) && UP(x) && open[x] && CONTACT -> stops++; harmless(x); \
	            running[x] = false; open[x] = false; stage[x] = ABSENT } \
	:: atomic { stage[x] == LIVING && UP(x) && open[x] && !LIVES(x) && OTHERS_LIVE(x) -> condemn(x) } \
	:: atomic { stage[x] == DECIDED && UP(x) -> stage[x] = LOWERED; timeout_[x] = T; left[x] = T; delayed[x] = false; doomed[x] = true } \
	:: atomic { stage[x] == DECIDED && UP(x) && refusals < REFUSALS -> refusals++; stage[x] = LOWERED; left[x] = timeout_[x]; delayed[x] = false } \
	:: atomic { stage[x] == LOWERED && UP(x) -> if :: SHORT_ENOUGH(x) -> stage[x] = READ :: else -> stage[x] = MUTE fi } \
	:: atomic { stage[x] == READ && UP(x) -> stage[x] = TOLD; tell(x); compose(slot[x], x, SAYS(x)) } \
	:: atomic { stage[x] == READ && UP(x) && hung_ < HANGS && !hangs[x] -> hung_++; stage[x] = TOLD; tell(x); hangs[x] = true; compose(hung[x], x, SAYS(x)) } \
	:: atomic { (stage[x] == LIVING || stage[x] == TOLD) && UP(x) && !hangs[x] -> write(x) } \
	:: atomic { stage[x] == LIVING && UP(x) && hung_ < HANGS && !hangs[x] -> hung_++; hangs[x] = true; compose(hung[x], x, 0) } \
	:: atomic { hangs[x] -> CP(slot[x], hung[x]); hangs[x] = false; hung[x].boot = 0; hung[x].whose = 0; hung[x].term = 0; hung[x].tok = 0; hung[x].age = 0; hung[x].fed = false } \
	:: atomic { stage[x] != ABSENT && kills < KILLS -> kills++; closed(x); stage[x] = ABSENT; waited[x] = 0 } \
	:: atomic { stage[x] != ABSENT && open[x] && kills < KILLS -> kills++; dying[x] = true; stage[x] = ABSENT; waited[x] = 0 } \
	:: atomic { dying[x] -> dying[x] = false; closed(x) } \
	:: atomic { stage[x] == ABSENT && !off[x] && !dying[x] && starts < STARTS -> starts++; start(x) } \
	:: atomic { stage[x] == ABSENT && !off[x] && blind < BLIND -> blind++; tok[x]++; waited[x] = 0; stage[x] = SIGHTLESS } \
	:: atomic { off[x] && boots < BOOTS -> boots++; off[x] = false; boot[x]++; tok[x] = tok[x] + 1; told[x] = false; doomed[x] = false; stage[x] = LIVING; timeout_[x] = 0; left[x] = 0 } \
	:: atomic { grants < GRANTS && MAYASK(x) && UP(x) && open[x] && !CONTACT && !HOLDS(x) && DONE -> grants++; harmless(x); grant = x + 1; granted = tok[x]; lived[x] = 0 } \
	:: atomic { stage[x] == LIVING && CONTACT && HOLDS(x) -> tok[x]++ }       /* it lives by the majority, and gives the grant up */

/* P2: the condemned proposes nothing. L5: the holder is done when its slot shows another token. */
#ifdef ASKS
#define MAYASK(x) (stage[x] == LIVING || CONDEMNED(x))
#else
#define MAYASK(x) (stage[x] == LIVING)
#endif
#define DONE (grant == 0 || slot[grant - 1].tok != granted)

/* What x may learn of the other: by a statement, or by a read of its slot, which takes time. */
#define READER(x) \
	:: atomic { link && UP(1 - (x)) && stage[1 - (x)] != ABSENT && met[x] != boot[1 - (x)] + 1 -> met[x] = boot[1 - (x)] + 1 } \
	:: atomic { link && UP(1 - (x)) && stage[1 - (x)] == TOLD && knows[x] != boot[1 - (x)] + 1 -> met[x] = boot[1 - (x)] + 1; learn(x, met[x], T, 0) } \
	:: atomic { reading[x] == 0 && knows[x] != met[x] -> reading[x] = 1 } \
	:: atomic { reading[x] > 0 -> k = reading[x] - 1; reading[x] = 0; \
	            if :: slot[1 - (x)].term > 0 -> learn(x, OF(1 - (x)), slot[1 - (x)].term, k) :: else fi; k = 0 }

#ifdef BOTH
#define WATCHED true
#else
#define WATCHED false   /* node 1 lives, whatever happens */
#endif

inline begin(x) {
	stage[x] = LIVING; open[x] = true; timeout_[x] = W; left[x] = W; met[x] = 1;
	running[x] = (x == 0 || WATCHED)
}

active proctype world() {
	atomic { begin(0); begin(1) }
	do
	:: atomic { count_down(0); count_down(1); grow(0); grow(1) }
	:: atomic { cuts < CUTS -> cuts++; link = !link }
	NODE(0)
	READER(1)
#ifdef BOTH
	NODE(1)
	READER(0)
#endif
	od
}
