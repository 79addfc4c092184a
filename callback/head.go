package callback

import (
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// maxHead is how far into a notification we look for its interval.
const maxHead = 256 << 10

// readHead reads what a notification says of the whole of it, up to its first entry. ok is false if it is nothing that
// the channel carries; then it has no times, and is kept all the same (S-61, F39). Its media type plays no part (S-65).
func readHead(kind store.ChannelKind, body []byte) (from, until store.Micros, ok bool) {
	var want []rsdoc.Kind
	switch kind {
	case store.ChannelChange: // resourcesync_push says changelist
		want = []rsdoc.Kind{rsdoc.KindChangeNotification, rsdoc.KindChangeList}
	case store.ChannelFramework:
		want = []rsdoc.Kind{rsdoc.KindFrameworkNotification}
	default: // a feed's topic may be anything: nothing of it is read here, and nothing about it is malformed (S-65)
		return store.NoTime, store.NoTime, true
	}
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{Assume: want[0], Limits: rsdoc.Limits{Bytes: maxHead}})
	if err != nil {
		return store.NoTime, store.NoTime, false
	}
	head, err := r.Head()
	if err != nil || head.Shape != rsdoc.List || head.Expect(want...) != nil { // never an index
		return store.NoTime, store.NoTime, false
	}
	return micros(head.From), micros(head.Until), true
}

func micros(m rsdoc.Micros) store.Micros {
	if !m.Known() {
		return store.NoTime
	}
	return store.Micros(m)
}
