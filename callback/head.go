package callback

import (
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

const maxHead = 256 << 10

// readHead reads a notification up to its first entry: only one with an interval can be a
// duplicate. ok is false if it is not of the channel's kind (S-61, F39); its media type is ignored
// (S-65).
func readHead(kind store.ChannelKind, body []byte) (from, until store.Micros, ok bool) {
	var want []rsdoc.Kind
	switch kind {
	case store.ChannelChange: // resourcesync_push says changelist
		want = []rsdoc.Kind{rsdoc.KindChangeNotification, rsdoc.KindChangeList}
	case store.ChannelFramework:
		want = []rsdoc.Kind{rsdoc.KindFrameworkNotification}
	default: // a feed's topic may be anything (S-65)
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
