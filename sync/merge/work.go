package merge

import "resyncd/store"

// WorkFor says what is to be done so that the file becomes what the want says. Whether another set of the Source wants
// something else WorkForAll tells.
func WorkFor(w *store.Want, h *store.Have, now store.Micros) store.Work {
	switch {
	case w.Refused != "" || w.Held:
		return store.Work{}
	case w.State == store.WantAbsent && h.State != store.HavePresent:
		return store.Work{}
	case w.State == store.WantAbsent && !w.Pushed:
		return store.Work{Action: store.ActionRemove, Due: now}
	case w.State == store.WantAbsent: // only the Source's own 404 or a document may remove (P5)
	case w.State == store.WantPresent && Satisfied(w, h) == Yes:
		return store.Work{}
	}
	return store.Work{Action: store.ActionFetch, Due: now}
}

// WorkForAll is WorkFor by the wants of all sets. It keeps what one set owes from being forgotten when another set of
// the same Source has nothing to do.
func WorkForAll(wants []store.Want, h *store.Have, now store.Micros) store.Work {
	if w := Effective(wants); w != nil {
		return WorkFor(w, h, now)
	}
	return store.Work{}
}

// Replaced is a copy of wants with that of one set.
func Replaced(wants []store.Want, next *store.Want) []store.Want {
	out := append([]store.Want(nil), wants...)
	for i := range out {
		if out[i].SetID == next.SetID {
			out[i] = *next
		}
	}
	return out
}

// Total adds the difference that a resource makes to its sets' totals.
func Total(sums map[int64]*store.SetChange, before []store.Want, was *store.Have, after []store.Want, is *store.Have) {
	for i := range before {
		b := Counted(&before[i], was)
		a := Counted(&after[i], is)
		if a == b {
			continue
		}
		s := sums[before[i].SetID]
		if s == nil {
			s = &store.SetChange{ID: before[i].SetID}
			sums[before[i].SetID] = s
		}
		s.Resources += Delta(b, a)
		s.Bytes += DeltaBytes(b, a)
	}
}

// Counted is how many bytes a set's totals hold for a resource; -1 if it is not counted.
func Counted(w *store.Want, h *store.Have) int64 {
	if (w.State == store.WantPresent || w.State == store.WantAsk || w.Held) && h.State != store.HaveNone {
		return h.Length
	}
	return -1
}

// Delta is the difference in resources between two results of Counted.
func Delta(before, after int64) int64 {
	switch {
	case before < 0 && after >= 0:
		return 1
	case before >= 0 && after < 0:
		return -1
	}
	return 0
}

// DeltaBytes is the difference in bytes between two results of Counted.
func DeltaBytes(before, after int64) int64 { return max(after, 0) - max(before, 0) }
