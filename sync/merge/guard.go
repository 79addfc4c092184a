package merge

// GuardMin is how many files a sweep may always remove.
const GuardMin = 10

// Hold is the sweep guard (CONTRIBUTING.md 8, P5): it stops a removal by absence, for the operator to decide, if the
// list is empty and anything would go, or if more than guard (a share, 0.2 is 20 %) of the have files and more than 10
// would go.
func Hold(listEmpty bool, wouldGo, have int64, guard float64) bool {
	if wouldGo <= 0 {
		return false
	}
	return listEmpty || wouldGo > GuardMin && float64(wouldGo) > guard*float64(have)
}
