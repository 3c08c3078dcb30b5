package sentence

import "github.com/fencing-agent/fencing-agent/integration/model/search"

// Model is what can be searched.
type Model[S comparable] interface {
	Next(s *S, yield func(action string, t S, wrong string))
	Wrong(s *S) string
}

// Search visits all states that can be reached from root, until one is wrong or there are more than limit.
func Search[S comparable](m Model[S], root S, limit int) search.Found[S, string] {
	return search.All(search.Model[S, string]{Next: m.Next, Wrong: m.Wrong}, root, limit)
}
