package agentsim

// Shrink drops events of a failing schedule as long as the rest still fails, within a number of attempts, and returns
// the shortest schedule that failed. A run is not replayed exactly, so each step is tried twice before it is given up.
func Shrink(s Schedule, fails func(Schedule) bool, attempts int) Schedule {
	try := func(events []Event) bool {
		shorter := s
		shorter.Events = events
		for range 2 {
			if attempts == 0 {
				return false
			}
			attempts--
			if fails(shorter) {
				s = shorter
				return true
			}
		}
		return false
	}
	for size := max(1, len(s.Events)/2); ; size /= 2 {
		for from := 0; from < len(s.Events); {
			rest := append(append([]Event(nil), s.Events[:from]...), s.Events[min(len(s.Events), from+size):]...)
			if !try(rest) {
				from += size
			}
		}
		if size <= 1 {
			return s
		}
	}
}
