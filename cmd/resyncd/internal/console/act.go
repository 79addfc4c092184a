package console

import (
	"context"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	doTime   = 60 * time.Second
	mostForm = 64 << 10
)

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
		c.show(w, r, http.StatusForbidden, "message", page{Title: "Not done", Source: name, Body: message{
			Level: Warn, Heading: "Nothing was done",
			Text: "That form was not made by this process for this browser: resyncd was restarted since, or cookies " +
				"are refused. Open the page again and repeat.",
		}})
		return
	}
	a := Action{Kind: ActionKind(form.Get("action")), Source: name, Topic: form.Get("topic"), URI: form.Get("uri")}
	if !slices.Contains(actions, a.Kind) || a.Kind == Restore && a.URI == "" {
		say(w, http.StatusBadRequest, "there is no such action; nothing was done")
		return
	}
	// Only a server without deadlines fails here.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(doTime + streamTime))
	level, text := c.carryOut(r, a)
	w.Header().Set("Location", after(a, c.flashes.pin(time.Now(), level, text)))
	w.WriteHeader(http.StatusSeeOther)
}

// carryOut does it also if the browser leaves.
func (c *console) carryOut(r *http.Request, a Action) (Level, string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), doTime)
	defer cancel()
	ctx, release := orEnding(ctx)
	defer release()
	text, err := c.Data.Do(ctx, a)
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	log := c.Log.With("action", string(a.Kind), "source", a.Source, "client", from)
	if err == nil {
		log.Info("an operator's action was carried out")
		return Good, text
	}
	log.Warn("an operator's action failed", "err", err)
	switch {
	case errors.Is(err, ErrUnknown):
		return Warn, "There is nothing of that name any more; nothing was done."
	case errors.Is(err, context.DeadlineExceeded):
		return Warn, "It takes longer than " + long(doTime) + "; see below for how far it has come."
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
