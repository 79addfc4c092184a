// Package faults knows what a Source does wrong on purpose, to try a Destination: in answers over HTTP, with
// notifications and in feeds. It refuses to know the Source; without faults, each of its calls does what is right.
package faults

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Set is what goes wrong; nil is nothing. Which request is hit depends on the seed, the path and how often that was
// asked for.
type Set struct {
	Seed      uint64
	Resources HTTP
	Documents HTTP
	Notify    Notify
	Feed      Feed
	// counts are requests by the hash of the path: bounded, and a collision does no harm.
	counts [1 << 12]atomic.Uint32
}

// HTTP is how often which fault happens; each field but the first three is a probability.
type HTTP struct {
	Latency    time.Duration // before every answer
	RetryAfter uint64        // announced with 429, in seconds
	Slow       int           // bytes a second, for every body; 0 is as fast as can be
	Error5xx   float64       // 500, 502 or 503
	Throttle   float64       // 429 with Retry-After
	Cut        float64       // the connection breaks in the middle of the body
	CutClose   float64       // half a body without length, ended by closing the connection: looks whole
	Wrong      float64       // one byte of the body is another
	Stall      float64       // half the body, then nothing
	HTML       float64       // 200 with an HTML page about an error
}

// Help explains the keys of Parse.
const Help = `seed=N              which requests are hit
latency=20ms        wait before every answer
slow=BYTES          drip every body at so many bytes a second
error5xx=P          500, 502 or 503
throttle=P          429 with Retry-After
retry-after=SECONDS what 429 says, default 1
cut=P               break the connection in the middle of the body
cutclose=P          half a body that looks whole: no length, connection closed
wrong=P             one byte of the body is another
stall=P             half the body, then nothing
html=P              200 with an HTML error page
notify-drop=N       each Nth Change Notification, and each Nth that tells of a feed, is not sent
notify-double=N     each Nth is sent twice
notify-shuffle=N    each Nth is sent after the next one
notify-forge=N      each Nth says that every resource it is about was deleted
feed-limit=N        feeds show the newest N entries, whatever their newest archive ends with
feed-archive=off    feeds have no archives
feed-undated=on     entries of the feed of changes do not say when
feed-rss=on         the feed of changes is RSS 2.0
feed-links=WHERE    hub and self of feeds only in the header, or only in the body
feed-type=TYPE      feeds are served and pushed as TYPE, such as text/html
P is a probability from 0 to 1. The keys are about resources; with doc- before them (doc-html=0.1), about
documents and topics.`

// Parse reads KEY=VALUE,… as --fault takes it. An empty text is no fault: nil.
func Parse(list string) (*Set, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	f := &Set{Resources: HTTP{RetryAfter: 1}, Documents: HTTP{RetryAfter: 1}}
	for item := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return nil, fmt.Errorf("fault %q: want KEY=VALUE", item)
		}
		if err := f.set(key, value); err != nil {
			return nil, fmt.Errorf("fault %q: %w", item, err)
		}
	}
	return f, nil
}

// set reads the value of one key, as the type of its field says.
func (f *Set) set(key, value string) error {
	switch field := f.field(key).(type) {
	case *uint64:
		n, err := strconv.ParseUint(value, 10, 64)
		*field = n
		return err
	case *int:
		n, err := strconv.ParseInt(value, 10, 32)
		*field = int(n)
		return want(err == nil && n > 0, "a number from 1")
	case *time.Duration:
		wait, err := time.ParseDuration(value)
		*field = wait
		return want(err == nil && wait >= 0, "a positive time such as 20ms")
	case *float64:
		p, err := strconv.ParseFloat(value, 64)
		*field = p
		return want(err == nil && p >= 0 && p <= 1, "a probability from 0 to 1")
	case *bool:
		word := "on"
		if field == &f.Feed.NoArchive {
			word = "off"
		}
		*field = true
		return want(value == word, word)
	case *string:
		*field = value
		if field == &f.Feed.Links {
			return want(value == linksInHeader || value == linksInBody, "header or body")
		}
		_, _, err := mime.ParseMediaType(value)
		return want(err == nil, "a media type such as text/html")
	}
	return fmt.Errorf("unknown; known are:\n%s", Help)
}

func want(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New("want " + what)
}

// field is where the value of a key goes, nil for an unknown one.
func (f *Set) field(key string) any {
	fields := map[string]any{
		"seed":        &f.Seed,
		"notify-drop": &f.Notify.Drop, "notify-double": &f.Notify.Double,
		"notify-shuffle": &f.Notify.Shuffle, "notify-forge": &f.Notify.Forge,
		"feed-limit": &f.Feed.Limit, "feed-archive": &f.Feed.NoArchive, "feed-undated": &f.Feed.Undated,
		"feed-rss": &f.Feed.RSS, "feed-links": &f.Feed.Links, "feed-type": &f.Feed.Type,
	}
	for prefix, set := range map[string]*HTTP{"": &f.Resources, "doc-": &f.Documents} {
		maps.Copy(fields, map[string]any{
			prefix + "latency": &set.Latency, prefix + "retry-after": &set.RetryAfter, prefix + "slow": &set.Slow,
			prefix + "error5xx": &set.Error5xx, prefix + "throttle": &set.Throttle, prefix + "cut": &set.Cut,
			prefix + "cutclose": &set.CutClose, prefix + "wrong": &set.Wrong, prefix + "stall": &set.Stall,
			prefix + "html": &set.HTML,
		})
	}
	return fields[key]
}

// fault is what happens to one request.
type fault int

const (
	faultNone fault = iota
	fault5xx
	faultThrottle
	faultCut
	faultCutClose
	faultWrong
	faultStall
	faultHTML
)

// choose throws the dice for a request: at most one fault.
func (f *Set) choose(set *HTTP, path string) (fault, uint64) {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, path)
	sum := hash.Sum64()
	count := f.counts[sum%uint64(len(f.counts))].Add(1)
	dice := rand.NewPCG(f.Seed^sum, uint64(count))
	p := rand.New(dice).Float64()
	for kind, chance := range [...]float64{
		fault5xx: set.Error5xx, faultThrottle: set.Throttle, faultCut: set.Cut, faultCutClose: set.CutClose,
		faultWrong: set.Wrong, faultStall: set.Stall, faultHTML: set.HTML,
	} {
		if p < chance {
			return fault(kind), dice.Uint64()
		}
		p -= chance
	}
	return faultNone, 0
}
