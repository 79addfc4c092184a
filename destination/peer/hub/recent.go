package hub

import "resyncd/destination/peer/hub/hubstate"

// recentBytes is how much content is kept in memory, so that a thousand subscribers of one topic read it once.
const recentBytes = 32 << 20

type recentKey struct{ topic, number int64 }

// recent holds the notifications that were added last. Hub.mu guards it.
type recent struct {
	all   map[recentKey]*hubstate.Notification
	order []recentKey
	size  int64
}

func weight(n *hubstate.Notification) int64 { return int64(len(n.Body)+len(n.Link)+len(n.Type)) + 256 }

func (r *recent) add(topic int64, n *hubstate.Notification) {
	key := recentKey{topic, n.Number}
	if r.all == nil {
		r.all = map[recentKey]*hubstate.Notification{}
	}
	if r.all[key] != nil {
		return
	}
	r.all[key] = n
	r.order = append(r.order, key)
	for r.size += weight(n); r.size > recentBytes && len(r.order) > 1; r.order = r.order[1:] {
		r.size -= weight(r.all[r.order[0]])
		delete(r.all, r.order[0])
	}
}

// after returns what follows number without a hole, at most limit.
func (r *recent) after(topic, number int64, limit int) []*hubstate.Notification {
	var out []*hubstate.Notification
	for len(out) < limit {
		number++
		n := r.all[recentKey{topic, number}]
		if n == nil {
			break
		}
		out = append(out, n)
	}
	return out
}
