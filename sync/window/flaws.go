package window

// Flaws are the places of entries that could not be read among those that could.
type Flaws struct {
	next   int // ordinal
	before uint64
	places [][2]uint64
}

// Meet notes an entry that could be read, by its place in the document.
func (f *Flaws) Meet(key uint64, ordinal int) {
	f.End(key, ordinal-f.next)
	f.next, f.before = ordinal+1, key
}

// End closes the run of flaws before the entry of a key, 0 for the end of the document.
func (f *Flaws) End(key uint64, n int) {
	for range n {
		f.places = append(f.places, [2]uint64{f.before, key})
	}
}

// Len is how many there are.
func (f *Flaws) Len() int { return len(f.places) }

// Beside are the entries that leave the feed before each flaw: the older ones, which stand behind it where entries grow
// older.
func (f *Flaws) Beside(order *PageOrder) (all [][]uint64) {
	for _, p := range f.places[:min(len(f.places), flawsMost)] {
		switch {
		case order.down > order.up:
			all = append(all, p[1:])
		case order.up > order.down:
			all = append(all, p[:1])
		default:
			all = append(all, p[:])
		}
	}
	return all
}

// flawsMost bounds the places of flaws that are remembered.
const flawsMost = 100
