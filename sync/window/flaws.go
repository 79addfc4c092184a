package window

// Flaws are the places of unreadable entries among readable ones.
type Flaws struct {
	next   int
	before uint64
	places [][2]uint64
}

// Meet notes a readable entry by its place.
func (f *Flaws) Meet(key uint64, ordinal int) {
	f.End(key, ordinal-f.next)
	f.next, f.before = ordinal+1, key
}

func (f *Flaws) End(key uint64, n int) {
	for range n {
		f.places = append(f.places, [2]uint64{f.before, key})
	}
}

// Len is their number.
func (f *Flaws) Len() int { return len(f.places) }

// Beside are the entries that leave the feed before each flaw, the older neighbours.
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

const flawsMost = 100
