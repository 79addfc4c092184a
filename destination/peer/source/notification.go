package source

import (
	"bytes"
	"fmt"
	"slices"

	"resyncd/destination/rsdoc"
)

// notificationBody writes a Change or Framework Notification.
func (s *Source) notificationBody(kind rsdoc.Kind, b batch) ([]byte, error) {
	d := document{head: newHead(rsdoc.List, kind, rsdoc.NewLink(rsdoc.RelUp, b.up))}
	if kind == rsdoc.KindFrameworkNotification {
		// No interval: what it names is read again, and a missed one is made good by the next poll.
		d.entries = newsEntries(b.news)
	} else {
		d.head.From, d.head.Until = b.from, b.until
		d.entries = s.changeEntries(b.changes)
	}
	var body bytes.Buffer
	if err := s.write(&body, d); err != nil {
		return nil, fmt.Errorf("write a notification: %w", err)
	}
	return body.Bytes(), nil
}

func newsEntries(all []news) func(func(*rsdoc.Entry) bool) {
	return func(yield func(*rsdoc.Entry) bool) {
		for _, n := range all {
			entry := newEntry(n.loc)
			entry.Capability, entry.Change, entry.Datetime = n.kind, n.change, n.at
			if n.index != "" {
				entry.Links = []rsdoc.Link{rsdoc.NewLink(rsdoc.RelIndex, n.index)}
			}
			if !yield(entry) {
				return
			}
		}
	}
}

// join is one notification for two that follow each other.
func (b batch) join(next batch) batch {
	next.from = b.from
	next.size += b.size
	next.changes = slices.Concat(b.changes, next.changes)
	next.news = slices.Concat(b.news, next.news)
	next.edits = slices.Concat(b.edits, next.edits)
	return next
}
