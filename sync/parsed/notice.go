// Package parsed reads documents, notifications and answers of a Source into the terms of rows. It knows nothing of
// state and fetching.
package parsed

import (
	"errors"
	"fmt"
	"io"

	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/coverage"
)

// NoticeMost bounds the entries of a notification; a larger one is a hint to pull (F45).
const NoticeMost = 50_000

// Notice is the reading of one notification.
type Notice struct {
	Head    rsdoc.Head
	N       int
	Skipped int64 // unreadable entries
	Err     error // why it was not read to its end, without which its interval proves nothing
}

// Interval is what the notification covers, false without a usable interval (F39).
func (n *Notice) Interval() (store.Interval, bool) {
	iv := store.Interval{From: store.Micros(n.Head.From), Until: store.Micros(n.Head.Until)}
	return iv, n.Err == nil && coverage.Usable(iv)
}

// Usable: the root is a list of changes, never an index.
func (n *Notice) Usable() bool {
	return n.Head.Shape == rsdoc.List && (n.Head.Kind == rsdoc.KindUnknown || tellsChanges(n.Head.Kind))
}

// ReadNotice reads a body by entry. The error is that of each; the Notice has that of the body.
func ReadNotice(body []byte, kind rsdoc.Kind, each func(*rsdoc.Entry) error) (*Notice, error) {
	n := &Notice{}
	r, err := rsdoc.OpenBytes(body, rsdoc.Options{Assume: kind})
	var head *rsdoc.Head
	if err == nil {
		head, err = r.Head()
	}
	if err == nil {
		n.Head = *head
	}
	for err == nil {
		var e *rsdoc.Entry
		if e, err = r.Next(); err == nil && n.N == NoticeMost {
			err = fmt.Errorf("more than %d entries", NoticeMost)
		}
		if err == nil {
			n.N++
			if own := each(e); own != nil {
				return n, own
			}
		}
	}
	if errors.Is(err, io.EOF) && head != nil {
		n.Skipped, _ = r.Skipped()
		err = nil
	}
	n.Err = err
	return n, nil
}

// tellsChanges: the sample of the old PuSH software says Change List.
func tellsChanges(k rsdoc.Kind) bool {
	return k == rsdoc.KindChangeNotification || k == rsdoc.KindChangeList
}

// Assumed is the kind of a notification that does not say it.
func Assumed(k store.ChannelKind) rsdoc.Kind {
	if k == store.ChannelFramework {
		return rsdoc.KindFrameworkNotification
	}
	return rsdoc.KindChangeNotification
}

// NamesDocuments detects a Framework Notification.
func NamesDocuments(d *store.Delivery) bool {
	r, err := rsdoc.OpenBytes(d.Body, rsdoc.Options{Assume: Assumed(d.Kind)})
	if err != nil {
		return false
	}
	head, err := r.Head()
	return err == nil && head.Kind == rsdoc.KindFrameworkNotification
}
