// Package words turns fields of the agent's API into English sentences. The agent and its clients share it, so that a
// verdict reads the same in a log, in an event and on a screen, and no program has to parse sentences.
//
// It depends only on the API's types. Sentences may change with any version, except for a few words that older versions
// of fencectl look for: see the tests.
package words
