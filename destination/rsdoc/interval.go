package rsdoc

// Interval is a span of Source time, closed at both ends: an event at From or at Until is inside [7, 12]. What a set of
// intervals proves is the engine's business.
type Interval struct{ From, Until Micros }

// Valid reports whether both ends are known and in order.
func (i Interval) Valid() bool {
	return i.From.Known() && i.Until.Known() && i.From <= i.Until
}

// Contains reports whether the instant m is inside. An invalid interval contains nothing.
func (i Interval) Contains(m Micros) bool {
	return i.Valid() && m.Known() && i.From <= m && m <= i.Until
}

// Overlaps reports whether the two share at least one instant.
func (i Interval) Overlaps(j Interval) bool {
	return i.Valid() && j.Valid() && i.From <= j.Until && j.From <= i.Until
}

// Touches reports whether the two together have no hole: they overlap, or one begins in the microsecond after the
// other's end.
func (i Interval) Touches(j Interval) bool {
	return i.Overlaps(j) || i.Valid() && j.Valid() &&
		(i.Until < j.From && i.Until+1 == j.From || j.Until < i.From && j.Until+1 == i.From)
}

// Join is the union of two intervals that touch; false where a hole lies between them.
func (i Interval) Join(j Interval) (Interval, bool) {
	if !i.Touches(j) {
		return Interval{From: NoTime, Until: NoTime}, false
	}
	return Interval{From: min(i.From, j.From), Until: max(i.Until, j.Until)}, true
}

// String is "from..until" in RFC 3339, for messages.
func (i Interval) String() string { return i.From.String() + ".." + i.Until.String() }
