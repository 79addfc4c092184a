package merge

// GuardMin files may always go.
const GuardMin = 10

// Hold is the sweep guard (CONTRIBUTING.md 8, P5). It stops a removal by an empty list, or of more than GuardMin files
// and the share guard.
func Hold(listEmpty bool, wouldGo, have int64, guard float64) bool {
	if wouldGo <= 0 {
		return false
	}
	return listEmpty || wouldGo > GuardMin && float64(wouldGo) > guard*float64(have)
}
