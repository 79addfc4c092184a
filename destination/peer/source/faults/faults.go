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
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"resyncd/destination/backoff"
	"resyncd/destination/feed"
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

// Notify is what goes wrong with notifications: N hits each Nth. Where several hit one, the first in this order wins.
type Notify struct {
	Drop    int `fault:"drop"`    // not sent at all
	Double  int `fault:"double"`  // sent twice
	Shuffle int `fault:"shuffle"` // sent after the next one, or a second later where none follows
	Forge   int `fault:"forge"`   // says that everything it is about was deleted
}

// ErrDropped is why a notification was not sent.
var ErrDropped = errors.New("dropped on purpose")

// shuffleWait is how long a notification is kept back where no other follows.
const shuffleWait = time.Second

// Line does the faults of one channel, in order. It is for one goroutine.
type Line[T any] struct {
	faults Notify
	forge  func(T) T
	count  int
	held   *T // shuffled: waits for the next one
}

// NewLine makes a Line; forge makes a notification say that everything it is about was deleted.
func NewLine[T any](f *Set, forge func(T) T) Line[T] {
	if f == nil {
		return Line[T]{}
	}
	return Line[T]{faults: f.Notify, forge: forge}
}

// Sending is one notification to send, or with Err one that is not sent.
type Sending[T any] struct {
	What T
	Err  error
}

// Pass returns what is sent in the place of a notification.
func (l *Line[T]) Pass(n T) []Sending[T] {
	l.count++
	each := func(n int) bool { return n > 0 && l.count%n == 0 }
	out := []Sending[T]{{What: n}}
	switch {
	case each(l.faults.Drop):
		out[0].Err = ErrDropped
	case each(l.faults.Double):
		out = append(out, out[0])
	case each(l.faults.Shuffle) && l.held == nil:
		l.held = &n
		return nil
	case each(l.faults.Forge):
		out[0].What = l.forge(n)
	}
	if l.held != nil {
		out = append(out, l.Release())
	}
	return out
}

// Late tells, after a while, that a notification is still kept back; nil where none is.
func (l *Line[T]) Late() <-chan time.Time {
	if l.held == nil {
		return nil
	}
	return time.After(shuffleWait)
}

// Release gives out the one that is kept back.
func (l *Line[T]) Release() Sending[T] {
	s := Sending[T]{What: *l.held}
	l.held = nil
	return s
}

// Feed is what is wrong with the feeds.
type Feed struct {
	// Limit is how many entries a current document shows, although its archives are laid out for more; 0: no fault.
	Limit     int  `fault:"limit"`
	NoArchive bool `fault:"archive"`
	// Undated and RSS are faults of the feed of changes alone.
	Undated bool `fault:"undated"`
	RSS     bool `fault:"rss"`
	// Links is "header" or "body" where hub and self are named nowhere else. Empty: in both.
	Links string `fault:"links"`
	// Type is a media type that is not that of the feed.
	Type string `fault:"type"`
}

// The values of Feed.Links.
const (
	linksInHeader = "header"
	linksInBody   = "body"
)

// OfChanges are the faults of the feed of changes.
func (f *Set) OfChanges() Feed {
	if f == nil {
		return Feed{}
	}
	return f.Feed
}

// OfRecords are the faults of the record feed.
func (f *Set) OfRecords() Feed {
	out := f.OfChanges()
	out.Undated, out.RSS = false, false
	return out
}

// LinksInHeader reports whether hub and self are named in the header.
func (f Feed) LinksInHeader() bool { return f.Links != linksInBody }

// Head spoils the head of a document.
func (f Feed) Head(d *feed.Document) {
	if f.Links == linksInHeader {
		d.Self, d.Hubs = "", nil
	}
}

// Write writes a document; site is the page that it belongs to.
func (f Feed) Write(w io.Writer, d *feed.Document, site string) error {
	if f.RSS {
		return feed.WriteRSS(w, d, site)
	}
	return feed.Write(w, d)
}

// MediaType is what a document is served and pushed as.
func (f Feed) MediaType() string {
	switch {
	case f.Type != "":
		return f.Type
	case f.RSS:
		return "application/rss+xml"
	}
	return "application/atom+xml"
}

// Wrap puts the faults before a handler; document tells the escaped paths of documents from those of resources.
func (f *Set) Wrap(next http.Handler, document func(path string) bool) http.Handler {
	if f == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		set := &f.Resources
		if document(path) {
			set = &f.Documents
		}
		if backoff.Wait(r.Context(), set.Latency) != nil {
			return
		}
		kind, dice := f.choose(set, path)
		switch kind {
		case fault5xx:
			http.Error(w, "a fault on purpose", []int{500, 502, 503}[dice%3])
			return
		case faultThrottle:
			w.Header().Set("Retry-After", strconv.FormatUint(set.RetryAfter, 10))
			http.Error(w, "a fault on purpose", http.StatusTooManyRequests)
			return
		case faultHTML:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<!DOCTYPE html>\n<html><head><title>Sorry</title></head>" +
				"<body><h1>We are down for maintenance</h1></body></html>\n"))
			return
		}
		if kind != faultNone || set.Slow > 0 {
			w = &faultyWriter{ResponseWriter: w, request: r, kind: kind, slow: int64(set.Slow), turn: -1}
		}
		next.ServeHTTP(w, r)
	})
}

// documentTurn is where a body of unknown length goes wrong: even the shortest document is longer.
const documentTurn = 100

// faultyWriter lets a body pass up to a point and does its fault there. It hides ReadFrom and Flush.
type faultyWriter struct {
	http.ResponseWriter
	request *http.Request
	kind    fault
	slow    int64
	turn    int64 // the byte at which the fault happens; -1 until the header is written
	sent    int64
}

// Unwrap lets deadlines through.
func (f *faultyWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *faultyWriter) WriteHeader(status int) {
	f.turn = documentTurn
	length, err := strconv.ParseInt(f.Header().Get("Content-Length"), 10, 64)
	if err == nil {
		f.turn = length / 2
	}
	switch {
	case status != http.StatusOK && status != http.StatusPartialContent, f.request.Method == http.MethodHead,
		err == nil && length == 0:
		f.kind = faultNone
	case f.kind == faultCutClose && status != http.StatusOK:
		f.kind = faultCut
	case f.kind == faultCutClose: // a body that ends with its connection looks whole (F55)
		f.Header().Del("Content-Length")
		f.Header().Set("Transfer-Encoding", "identity")
	}
	f.ResponseWriter.WriteHeader(status)
}

func (f *faultyWriter) Write(b []byte) (int, error) {
	if f.turn < 0 {
		f.WriteHeader(http.StatusOK)
	}
	rest := f.turn - f.sent
	switch {
	case f.kind == faultNone || rest >= int64(len(b)) || rest < 0:
		return f.drip(b)
	case f.kind == faultCutClose:
		_, err := f.drip(b[:rest])
		return len(b), err
	case f.kind == faultWrong:
		b = append([]byte(nil), b...)
		b[rest] ^= 1
		return f.drip(b)
	}
	if _, err := f.drip(b[:rest]); err != nil {
		return 0, err
	}
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	if f.kind == faultStall {
		<-f.request.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// drip writes at the speed asked for.
func (f *faultyWriter) drip(b []byte) (int, error) {
	if f.slow == 0 {
		n, err := f.ResponseWriter.Write(b)
		f.sent += int64(n)
		return n, err
	}
	written := 0
	for len(b) > 0 {
		// Ten pieces a second, or one byte at a time.
		piece := b[:min(int64(len(b)), max(1, f.slow/10))]
		n, err := f.ResponseWriter.Write(piece)
		written, f.sent = written+n, f.sent+int64(n)
		if err != nil {
			return written, err
		}
		control := http.NewResponseController(f.ResponseWriter)
		_ = control.SetWriteDeadline(time.Now().Add(time.Minute))
		_ = control.Flush()
		pause := time.Duration(int64(len(piece)) * int64(time.Second) / f.slow)
		if err := backoff.Wait(f.request.Context(), pause); err != nil {
			return written, err
		}
		b = b[len(piece):]
	}
	return written, nil
}
