package merge

import (
	"encoding/json"
	"time"

	"resyncd/store"
)

// ItemFrom is the origin of an item.
type ItemFrom struct {
	Pushed bool
	// Uncached: past all caches.
	Uncached bool
	// Full ignores earlier knowledge.
	Full bool
	// Limit is the latest instant of a change.
	Now, Limit store.Micros
	// Shown is when the feed showed the item, NoTime for old documents and pushes.
	Shown store.Micros
	// Page is the document's URL, "" of a push.
	Page string
}

// ItemMeta is store.Want.Meta. Pushed stays until the feed confirms the item.
type ItemMeta struct {
	Title     string     `json:"title,omitempty"`
	Author    string     `json:"author,omitempty"`
	Published string     `json:"published,omitempty"`
	Updated   string     `json:"updated,omitempty"`
	Source    string     `json:"source,omitempty"`
	Pushed    *time.Time `json:"pushed,omitempty"`
	// Links holds a digest for each linking entry.
	Links map[string]string `json:"links,omitempty"`
}

// String is "" for nothing.
func (m ItemMeta) String() string {
	if m.empty() {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return string(b)
}

func (m ItemMeta) empty() bool {
	return m.Title+m.Author+m.Published+m.Updated+m.Source == "" && m.Pushed == nil && len(m.Links) == 0
}

// MetaOf reads a row's meta.
func MetaOf(row *store.Want) (m ItemMeta) {
	if row.Meta != "" && json.Unmarshal([]byte(row.Meta), &m) != nil {
		return ItemMeta{}
	}
	return m
}

// PushedAt is the time of an unconfirmed push.
func PushedAt(row *store.Want) (store.Micros, bool) {
	m := MetaOf(row)
	if m.Pushed == nil {
		return store.NoTime, false
	}
	return store.MicrosOf(*m.Pushed), true
}

// FeedLag is how long a push beats a lagging feed (S-71, P9).
const FeedLag = store.Micros(60 * 1e6)

// MergeItem applies a feed entry to a row, nil for none (websub.md T-04). Ask needs a read past caches, because a
// Source may be restored or mend its clock.
func MergeItem(row *store.Want, c Candidate, from ItemFrom) Decision {
	if row == nil || row.State == store.WantNone {
		return Replace
	}
	at, v := row.Version.From, c.Version.From
	invented := at.Known() && at > from.Limit // else it wins for ever
	if SameItem(row, c) {
		switch _, pushed := PushedAt(row); {
		case pushed && !from.Pushed, v > at && !invented:
			return Replace
		}
		return Repeat
	}
	switch {
	case v > at, invented && !from.Pushed:
		return Replace
	case c.State == store.WantAbsent && row.State == store.WantPresent && !row.LastMod.Known() && from.Shown > at:
		return Replace
	case v == at && v.Known() && c.State == store.WantAbsent:
		return Replace
	case v == at && v.Known() && row.State == store.WantAbsent && from.Pushed:
		return Ignore
	case v == at && row.State == store.WantAbsent && v.Known():
	case v == at && from.Pushed:
		return Ask
	case v == at:
		return Replace
	case from.Pushed:
		if v.Known() {
			return Ignore
		}
		return Ask
	case !v.Known() && row.State == store.WantPresent && c.State == store.WantPresent:
		return Replace
	case !v.Known() && row.State == store.WantAbsent && from.Shown > at:
		return Replace
	}
	pushed, ok := PushedAt(row)
	switch {
	case ok && from.Now-pushed < FeedLag:
	case from.Shown.Known() && from.Shown <= at && !(ok && at > from.Now):
		// an old copy
	case !ok && c.State == store.WantAbsent:
	case from.Uncached:
		return Replace
	case ok || from.Full || from.Shown.Known():
		return Ask
	}
	return Ignore
}

// SameItem reports equal statements.
func SameItem(row *store.Want, c Candidate) bool {
	if row.State != c.State {
		return false
	}
	return c.State == store.WantAbsent || row.Digests == c.Digests
}

// ToldBefore reports that the feed itself told it.
func ToldBefore(row *store.Want, c Candidate) bool {
	if row == nil || !SameItem(row, c) {
		return false
	}
	_, pushed := PushedAt(row)
	return !pushed
}
