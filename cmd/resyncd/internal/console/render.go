package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
)

//go:embed pages
var pageFiles embed.FS

var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"plain": plain, "count": count, "size": size, "stamp": stamp, "ago": ago, "long": long, "short": short,
		"at": at, "source": sourcePath, "level": Level.word, "lease": newLease, "act": newAct,
		"items": newItems, "around": around, "moment": moment, "brief": brief, "fresh": fresh, "sparks": newSparks,
		"path": url.PathEscape, "address": address, "reason": reason, "title": titleOf, "detail": detailOf, "gap": gap,
		"channel": ChannelLevel, "url": term.URL, "web": web, "tail": tail, "rel": relation,
		"latency": latency, "longest": longest,
		"seconds": func(n int64) time.Duration { return time.Duration(n) * time.Second },
	}).ParseFS(pageFiles, "pages/*.html"))
})

type page struct {
	Title, Version string
	Now            time.Time
	Source         string
	Refresh        int // seconds, for browsers without scripts
	Token          string
	Flash          *flash
	Body           any
}

func sourcePath(name string, below ...string) string {
	return "/source/" + strings.Join(append([]string{url.PathEscape(name)}, below...), "/")
}

func (c *console) show(w http.ResponseWriter, r *http.Request, code int, name string, p page) {
	p.Version = c.Version
	if p.Now.IsZero() {
		p.Now = time.Now()
	}
	if id := r.URL.Query().Get("said"); id != "" {
		p.Flash = c.flashes.find(time.Now(), id)
	}
	var body bytes.Buffer
	if err := pages().ExecuteTemplate(&body, name, &p); err != nil {
		c.Log.Error("cannot write a page", "page", name, "err", err)
		say(w, http.StatusInternalServerError, "this page cannot be written; the log says why")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	// Under no-referrer a browser sends its forms with "Origin: null", which could be anyone.
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes())
}

// made has a page made in its turn.
func (c *console) made(answer http.HandlerFunc) http.HandlerFunc {
	return quick(inTurn(c.making, "too many pages are asked for; try again", answer))
}

// inTurn has an answer made when there is room for it, and sent after that: a slow client holds up nobody.
func inTurn(room chan struct{}, none string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
		case <-r.Context().Done():
			w.Header().Set("Retry-After", "5")
			say(w, http.StatusServiceUnavailable, none)
			return
		}
		kept := &buffered{ResponseWriter: w, code: http.StatusOK}
		func() {
			defer func() { <-room }()
			answer(kept, r)
		}()
		w.WriteHeader(kept.code)
		_, _ = w.Write(kept.body.Bytes())
	}
}

// buffered keeps a body until it is whole.
type buffered struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (k *buffered) WriteHeader(code int) { k.code = code }

// Write implements http.ResponseWriter.
func (k *buffered) Write(p []byte) (int, error) { return k.body.Write(p) }

func (c *console) lost(w http.ResponseWriter, r *http.Request) {
	c.show(w, r, http.StatusNotFound, "message", page{Title: "Not found", Body: Finding{
		Level: Warn, State: "There is nothing here", Why: "The address may be mistyped, or what it named is not " +
			"kept any more.",
	}})
}

func (c *console) fail(w http.ResponseWriter, r *http.Request, what string, err error) {
	if errors.Is(err, ErrUnknown) {
		c.lost(w, r)
		return
	}
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "It took too long to read the state. The machine or its disk may be very busy; try again."
	}
	if !errors.Is(r.Context().Err(), context.Canceled) {
		c.Log.Warn("cannot show a page", "page", what, "err", err)
	}
	c.show(w, r, http.StatusServiceUnavailable, "message", page{Title: "Not now", Refresh: 5, Body: Finding{
		Level: Bad, State: "This cannot be shown now", Why: text,
	}})
}

type actForm struct {
	Source, Token, Action, Label string
	Field                        []string // name and value of a hidden field, if there is one
}

func newAct(p *page, action, label string, field ...string) actForm {
	return actForm{Source: p.Source, Token: p.Token, Action: action, Label: label, Field: field}
}

type itemList struct {
	Source, Kind string
	Now          time.Time
	Items        []*store.Resource
	All          int64
}

func newItems(p *page, items []*store.Resource, all int64, kind string) itemList {
	return itemList{Source: p.Source, Kind: kind, Now: p.Now, Items: items, All: all}
}

// More reports whether there are more than are shown.
func (l itemList) More() bool { return l.All > int64(len(l.Items)) }

//go:embed assets
var assetFiles embed.FS

// asset is one embedded file; its name changes with its bytes, so that it may be kept for ever.
type asset struct {
	name, kind string
	body       []byte
}

// assets are by path.
var assets = sync.OnceValue(func() map[string]asset {
	out := map[string]asset{}
	for name, kind := range map[string]string{"console.css": "text/css; charset=utf-8",
		"console.js": "text/javascript; charset=utf-8", "favicon.svg": "image/svg+xml"} {
		body, err := assetFiles.ReadFile(path.Join("assets", name))
		if err != nil {
			panic("console: " + err.Error()) // a test loads them all
		}
		sum, ext := sha256.Sum256(body), path.Ext(name)
		at := "/assets/" + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		out[at] = asset{name: name, kind: kind, body: body}
	}
	return out
})

// at is the path of the asset of that name.
func at(name string) string {
	for at, a := range assets() {
		if a.name == name {
			return at
		}
	}
	return ""
}

func (a asset) answer(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body)
}
