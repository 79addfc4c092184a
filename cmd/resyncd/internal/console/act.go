package console

import (
	"crypto/rand"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const mostForm = 64 << 10

var actions = []ActionKind{Pull, Renew, Approve, Reject, Restore, Pause, Resume}

// do carries out what a form of our own page asks for, then sends the browser to the page that shows it.
func (c *console) do(w http.ResponseWriter, r *http.Request, name string) {
	if !sameOrigin(r) {
		say(w, http.StatusForbidden, "this was asked for by another site; nothing was done")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
		kind != "application/x-www-form-urlencoded" {
		say(w, http.StatusUnsupportedMediaType, "actions come as a form (application/x-www-form-urlencoded)")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		say(w, http.StatusBadRequest, "that form cannot be read; nothing was done")
		return
	}
	form := r.PostForm
	if !c.sealed(r, form.Get("csrf")) {
		c.show(w, r, http.StatusForbidden, "message", page{Title: "Not done", Source: name, Body: Finding{
			Level: Warn, State: "Nothing was done",
			Why: "That form was not made by this process for this browser: resyncd was restarted since, or cookies " +
				"are refused. Open the page again and repeat.",
		}})
		return
	}
	a := Action{Kind: ActionKind(form.Get("action")), Source: name, Topic: form.Get("topic"), URI: form.Get("uri")}
	if !slices.Contains(actions, a.Kind) || a.Kind == Restore && a.URI == "" {
		say(w, http.StatusBadRequest, "there is no such action; nothing was done")
		return
	}
	level, text := c.carryOut(r, a)
	w.Header().Set("Location", after(a, c.flashes.pin(time.Now(), level, text)))
	w.WriteHeader(http.StatusSeeOther)
}

func (c *console) carryOut(r *http.Request, a Action) (Level, string) {
	text, err := c.Data.Do(r.Context(), a)
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	log := c.Log.With("action", string(a.Kind), "source", a.Source, "client", from)
	if err == nil {
		log.Info("an operator's action was carried out")
		return Good, text
	}
	log.Warn("an operator's action failed", "err", err)
	if errors.Is(err, ErrUnknown) {
		return Warn, "There is nothing of that name any more; nothing was done."
	}
	return Bad, "That failed: " + err.Error()
}

// after is the address of the page that shows what was done.
func after(a Action, said string) string {
	q := url.Values{"said": {said}}
	if a.Kind == Restore {
		q.Set("uri", a.URI)
		return sourcePath(a.Source, "resource") + "?" + q.Encode()
	}
	return sourcePath(a.Source) + "?" + q.Encode()
}

const (
	mostFlashes = 64
	flashTime   = 10 * time.Minute
)

// flash is what an action had to say, for the page that follows it.
type flash struct {
	id    string
	until time.Time
	Level Level
	Text  string
}

// flashes are kept here, so that no address carries a text that a stranger wrote.
type flashes struct {
	mu   sync.Mutex
	kept []flash
}

func (b *flashes) pin(now time.Time, level Level, text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = slices.DeleteFunc(b.kept, func(f flash) bool { return now.After(f.until) })
	if len(b.kept) >= mostFlashes {
		b.kept = slices.Delete(b.kept, 0, len(b.kept)-mostFlashes+1)
	}
	id := rand.Text()
	b.kept = append(b.kept, flash{id: id, until: now.Add(flashTime), Level: level, Text: plain(text)})
	return id
}

func (b *flashes) find(now time.Time, id string) *flash {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.kept, func(f flash) bool { return f.id == id && !now.After(f.until) })
	if i < 0 {
		return nil
	}
	return new(b.kept[i])
}
