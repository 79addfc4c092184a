package merge

import (
	"encoding/json"
	"time"

	"resyncd/store"
)

// ItemFrom is where an item comes from.
type ItemFrom struct {
	Pushed   bool
	Uncached bool // read past all caches, so the Source says it now
	Full     bool // nothing that was known before is believed
	// Now is our clock, Limit the latest instant that a change can have.
	Now, Limit store.Micros
	// Shown is when the feed itself showed the item, by the Source's clock; NoTime for older documents and pushes.
	Shown store.Micros
	Page  string // URL of the document, "" of a push
}

// ItemMeta is what a row tells of an inline resource for people (store.Want.Meta).
type ItemMeta struct {
	Title     string     `json:"title,omitempty"`
	Author    string     `json:"author,omitempty"`
	Published string     `json:"published,omitempty"`
	Updated   string     `json:"updated,omitempty"`
	Source    string     `json:"source,omitempty"` // atom:source of an aggregated entry
	Pushed    *time.Time `json:"pushed,omitempty"` // by a notification, until the feed tells it
	// Links are the digests of the entries that link to this, by those of their keys.
	Links map[string]string `json:"links,omitempty"`
}

// String is as a row keeps it, "" for nothing.
func (m ItemMeta) String() string {
	b, err := json.Marshal(m)
	if err != nil || string(b) == "{}" {
		return ""
	}
	return string(b)
}

// MetaOf reads what a row tells.
func MetaOf(row *store.Want) (m ItemMeta) {
	if row.Meta != "" && json.Unmarshal([]byte(row.Meta), &m) != nil {
		return ItemMeta{}
	}
	return m
}

// PushedAt is when a notification brought what the row says; false if the feed told it.
func PushedAt(row *store.Want) (store.Micros, bool) {
	m := MetaOf(row)
	if m.Pushed == nil {
		return store.NoTime, false
	}
	return store.MicrosOf(*m.Pushed), true
}

// FeedLag is how long a feed may lag before it is believed rather than a push (S-71, P9).
const FeedLag = store.Micros(60 * 1e6)

// MergeItem lets an entry of a feed meet a row, nil for none (websub.md T-04): the newest wins, absence says nothing.
// Ask means to read the document past caches, which decides, because a Source may be restored from a backup.
func MergeItem(row *store.Want, c Candidate, from ItemFrom) Decision {
	if row == nil || row.State == store.WantNone {
		return Replace
	}
	at, v := row.Version.From, c.Version.From
	invented := at.Known() && at > from.Limit // a date in the future must not win for ever
	if SameItem(row, c) {
		switch _, pushed := PushedAt(row); {
		case pushed && !from.Pushed, v > at && !invented: // the feed confirms it
			return Replace
		}
		return Repeat
	}
	switch {
	case v > at, invented && !from.Pushed:
		return Replace
	case c.State == store.WantAbsent && row.State == store.WantPresent && !row.LastMod.Known() && from.Shown > at:
		return Replace // without dates the feed that shows its end now is right
	case v == at && v.Known() && c.State == store.WantAbsent: // deleted in the instant of its last change
		return Replace
	case v == at && v.Known() && row.State == store.WantAbsent && from.Pushed:
		return Ignore
	case v == at && row.State == store.WantAbsent && v.Known(): // asked below
	case v == at && from.Pushed:
		return Ask
	case v == at:
		return Replace // changed without a new date: the feed is read later than it was then
	case from.Pushed:
		if v.Known() {
			return Ignore
		}
		return Ask
	case !v.Known() && row.State == store.WantPresent && c.State == store.WantPresent:
		return Replace // it gives no dates any more
	case !v.Known() && row.State == store.WantAbsent && from.Shown > at:
		return Replace // it came back
	}
	pushed, ok := PushedAt(row)
	switch {
	case ok && from.Now-pushed < FeedLag: // the feed lags behind the push
	case from.Shown.Known() && from.Shown <= at && !(ok && at > from.Now):
		// an old copy, and none beside what a hub has dated ahead
	case !ok && c.State == store.WantAbsent:
	case from.Uncached:
		return Replace // nobody but the hub said otherwise, or the Source has changed its mind
	case ok || from.Full || from.Shown.Known():
		return Ask
	}
	return Ignore
}

// SameItem reports whether a row says what the candidate says.
func SameItem(row *store.Want, c Candidate) bool {
	if row.State != c.State {
		return false
	}
	return c.State == store.WantAbsent || row.Digests == c.Digests
}

// ToldBefore reports whether the feed itself has told what it shows.
func ToldBefore(row *store.Want, c Candidate) bool {
	if row == nil || !SameItem(row, c) {
		return false
	}
	_, pushed := PushedAt(row)
	return !pushed
}
