// Package words says in English what the agent's API says in fields. The agent and its clients share it,
// so that a verdict reads the same in a log, an event and on a screen, and nobody takes sentences apart.
//
// It depends on the API's types alone. Sentences may change with any version, except for a few words that older
// versions of fencectl look for in them: see the tests.
package words
