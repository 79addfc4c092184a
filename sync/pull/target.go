package pull

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	"resyncd/destination"
	"resyncd/destination/fetch"
	"resyncd/store/blob"
	"resyncd/sync/transfer"
)

// Kind is what the URL of a Source leads to.
type Kind string

// KindAuto takes a feed only if the URL was given as one; KindFeed follows any topic.
const (
	KindAuto         Kind = "auto"
	KindResourceSync Kind = "resourcesync"
	KindFeed         Kind = "feed"
)

// Target is one Source with everything that a run needs.
type Target struct {
	Name string
	URL  string
	// Kind is the kind of URL, KindAuto if empty. Feeds have Records ("resource-finder"), Follow (link relations to
	// mirror), and Hub and Topic, which override discovery (S-12).
	Kind       Kind
	Records    string
	Follow     []string
	Hub, Topic string
	// Sets limits the run to these Capability Lists; empty means all.
	Sets []string
	// Scope are URI prefixes beside the Capability List's origin; Include and Exclude are URI globs.
	Scope, Include, Exclude []string
	// Reach describes the allowed addresses (network.allow). A change tries refused resources anew.
	Reach string

	Delete      transfer.DeleteMode
	TrashFor    time.Duration
	DeleteGuard float64 // share of the files, 0.2 is 20 %
	GapPatience time.Duration
	MaxResource int64 // bytes, 0 unlimited
	Concurrency int   // requests to one host at once

	Client *fetch.Client
	Policy *fetch.Policy
	Mirror blob.Mirror // nil only in a dry run without mirror
	RootID string
	// Adopt: the mirror may hold files without rows, so the disk is looked at before any fetch. SweepExtra moves
	// unlisted files to the trash (guarded).
	Adopt, SweepExtra bool
}

// Spent returns what the Source has cost the network so far.
func (t *Target) Spent() (requests, bytes int64) {
	if t.Policy != nil && t.Policy.Meter != nil { // the client serves other Sources too
		return t.Policy.Meter.Requests(), t.Policy.Meter.Bytes()
	}
	return t.Client.Requests(), t.Client.Bytes()
}

func (t *Target) allows(u *url.URL) bool {
	if len(t.Scope) == 0 {
		return false
	}
	scope, err := destination.NewScope(t.URL, t.Scope)
	return err == nil && scope.Contains(u.String())
}

// form names the mirrored parts of a feed beside its entries.
func (t *Target) form() string {
	return strings.Join(append(slices.Sorted(slices.Values(t.Follow)), t.Records), " ")
}

// PolicyDigest changes with the rules of refusal.
func (t *Target) PolicyDigest() string {
	var parts []string
	for _, list := range [][]string{t.Scope, t.Include, t.Exclude, {t.Reach}} {
		parts = append(parts, strings.Join(slices.Sorted(slices.Values(list)), "\x00"))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x01")))
	return hex.EncodeToString(sum[:8])
}

// Judge returns the rule that refuses URIs outside the scope or the filters.
func (t *Target) Judge(offer *destination.SetOffer) (func(uri string) string, error) {
	own := offer.ID
	if offer.Err != nil { // its ID may be anything and must not stop the other sets
		own = t.URL
	}
	prefixes := t.Scope
	if u, err := url.Parse(t.URL); err == nil && (t.Kind == KindFeed || offer.Topic != nil) {
		// The self link of a feed may have another scheme or port than its URL (S-11).
		prefixes = append(slices.Clip(prefixes), u.Scheme+"://"+u.Host+"/")
	}
	scope, err := destination.NewScope(own, prefixes)
	if err != nil {
		return nil, err
	}
	filter, err := t.filter()
	if err != nil {
		return nil, err
	}
	return func(uri string) string {
		if !scope.Contains(uri) {
			return "outside the scope of the Source: add its prefix to `scope` if it belongs to the set"
		}
		return filter(uri)
	}, nil
}

func (t *Target) filter() (func(uri string) string, error) {
	filter, err := destination.NewFilter(t.Include, t.Exclude)
	if err != nil {
		return nil, err
	}
	return func(uri string) string {
		if !filter.Passes(uri) {
			return "left out by `include` or `exclude`"
		}
		return ""
	}, nil
}
