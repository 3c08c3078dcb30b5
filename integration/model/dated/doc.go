// Package dated is a model of the proof of a death by dated claims (docs/adr/0084-dated-claims.md): a victim, one or
// two members that it may count and that claim its death, and a reader that dates their claims by its own clock. Each
// word of the rule can be left out. A search of all states says what then goes wrong.
//
// It is a model of rules and not a test of the agent: the two share no code.
//
// # What is modelled
//
// The victim x asks the members at any time. A member answers with the statement that it gives out at that moment, and
// question and answer may each take any time. x feeds its watchdog while it has an answer, to a question younger than
// D_max, that says that it is seen. Members see x whenever they like, in one direction or in both. A member's step finds
// whom it sees, and its effects, the new statement, come any time later, but before its next step: so a paused member
// is one whose steps are far apart. A member's agent may start again, and then knows nothing. The reader asks for the
// statements of the members in the same way.
//
// Of a grant there is only what bounds it: x may feed by an older grant until G after the present one was decided, which
// the reader learns any time later.
//
// # What is checked
//
// In no state in which the reader's claims prove the death does x run. With two members the messages take no time, or
// there would be too many states.
package dated
