package source

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"resyncd/destination/rsdoc"
)

// NotifyFaults are what goes wrong with Change Notifications: N hits each Nth, 0 none. Where several hit the same one, the
// first in this order wins.
type NotifyFaults struct {
	Drop    int // not sent at all
	Double  int // sent twice
	Shuffle int // sent after the next one, or a second later where none follows
	Forge   int // says that everything it is about was deleted
}

func (f *NotifyFaults) set(key, value string) error {
	field, ok := map[string]*int{"drop": &f.Drop, "double": &f.Double, "shuffle": &f.Shuffle, "forge": &f.Forge}[key]
	if !ok {
		return fmt.Errorf("unknown; known are:\n%s", FaultHelp)
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n < 1 {
		return errors.New("want a number from 1")
	}
	*field = int(n)
	return nil
}

// notifyFaults does them to the notifications of one channel.
type notifyFaults struct {
	NotifyFaults
	count int
	held  *batch // shuffled: waits for the next one
}

// turn is one notification to send, or with err one that is not sent.
type turn struct {
	batch
	err error
}

// apply returns what is sent in the place of a notification.
func (f *notifyFaults) apply(b batch) []turn {
	f.count++
	each := func(n int) bool { return n > 0 && f.count%n == 0 }
	turns := []turn{{batch: b}}
	switch {
	case each(f.Drop):
		turns[0].err = ErrNotifyFault
	case each(f.Double):
		turns = append(turns, turns[0])
	case each(f.Shuffle) && f.held == nil:
		f.held = &b
		return nil
	case each(f.Forge):
		turns[0].batch = forged(b)
	}
	if f.held != nil {
		turns = append(turns, f.release())
	}
	return turns
}

// release gives out the one that was held.
func (f *notifyFaults) release() turn {
	t := turn{batch: *f.held}
	f.held = nil
	return t
}

// forged says in an honest interval that everything was deleted.
func forged(b batch) batch {
	b.changes = slices.Clone(b.changes)
	for i := range b.changes {
		b.changes[i].kind = rsdoc.ChangeDeleted
	}
	return b
}
