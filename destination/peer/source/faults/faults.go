// Package faults knows what a Source does wrong on purpose, to try a Destination: in answers over HTTP, with
// notifications and in feeds. It refuses to know the Source; without faults, each of its calls does what is right.
package faults

import (
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"mime"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Set is what goes wrong, each field under its key; nil is nothing. Which request is hit depends on the seed, the path
// and how often that was asked for.
type Set struct {
	Seed      uint64 `fault:"seed"`
	Resources HTTP   `fault:""`
	Documents HTTP   `fault:"doc-"`
	Notify    Notify `fault:"notify-"`
	Feed      Feed   `fault:"feed-"`
	// counts are requests by the hash of the path: bounded, and a collision does no harm.
	counts [1 << 12]atomic.Uint32
}

// HTTP is how often which fault happens; each field but the first three is a probability.
type HTTP struct {
	Latency    time.Duration `fault:"latency"`     // before every answer
	RetryAfter uint64        `fault:"retry-after"` // announced with 429, in seconds
	Slow       int           `fault:"slow"`        // bytes a second, for every body; 0 is as fast as can be
	Error5xx   float64       `fault:"error5xx"`    // 500, 502 or 503
	Throttle   float64       `fault:"throttle"`    // 429 with Retry-After
	Cut        float64       `fault:"cut"`         // the connection breaks in the middle of the body
	// CutClose is half a body without length, ended by closing the connection: it looks whole.
	CutClose float64 `fault:"cutclose"`
	Wrong    float64 `fault:"wrong"` // one byte of the body is another
	Stall    float64 `fault:"stall"` // half the body, then nothing
	HTML     float64 `fault:"html"`  // 200 with an HTML page about an error
}

// Help explains the keys of Parse.
//
//go:embed help.txt
var Help string

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
	switch field := fieldOf(reflect.ValueOf(f).Elem(), key).(type) {
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

// fieldOf is where the value of a key goes in a struct, nil for an unknown one.
func fieldOf(faults reflect.Value, key string) any {
	for i := range faults.NumField() {
		prefix, tagged := faults.Type().Field(i).Tag.Lookup("fault")
		rest, ok := strings.CutPrefix(key, prefix)
		field := faults.Field(i)
		switch {
		case !tagged || !ok:
		case rest == "" && field.Kind() != reflect.Struct:
			return field.Addr().Interface()
		case field.Kind() == reflect.Struct:
			if found := fieldOf(field, rest); found != nil {
				return found
			}
		}
	}
	return nil
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
