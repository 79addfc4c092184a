package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/report"
)

// shownHits is how many resources a search shows.
const shownHits = 100

// source is a Source's record.
func (k *dashboard) source(ctx context.Context, name string) (store.Source, error) {
	if !k.d.listeners.isOpen() {
		return store.Source{}, errStarting
	}
	known, err := k.d.st.Source(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return known, console.ErrUnknown
	}
	return known, err
}

// Find implements console.Data.
func (k *dashboard) Find(ctx context.Context, name, text string) (console.Found, error) {
	var out console.Found
	known, err := k.source(ctx, name)
	if errors.Is(err, console.ErrUnknown) {
		if _, configured := k.d.sources.config().Source(name); configured { // nothing of it is known yet
			return console.Found{Complete: true}, nil
		}
	}
	if err != nil {
		return out, err
	}
	rs, complete, err := k.d.st.Find(ctx, known.ID, text, shownHits)
	out.Complete = complete
	for _, r := range rs {
		out.Items = append(out.Items, hitOf(r))
	}
	return out, err
}

// hitOf is a resource as searches show it.
func hitOf(r *store.Resource) console.Hit {
	l := report.ListingOf(r)
	h := console.Hit{URI: r.URI, State: cmp.Or(l.State, "deleted"), Length: -1, Changed: l.Changed.Time,
		Title: titleOf(l.Meta), Type: valueOf(l.Type)}
	if l.Length != nil {
		h.Length = *l.Length
	}
	return h
}

// valueOf is a text that may be absent, "" where it is.
func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// titleOf is the title of a feed's entry.
func titleOf(meta json.RawMessage) string {
	var m struct {
		Title string `json:"title"`
	}
	if json.Unmarshal(meta, &m) != nil {
		return ""
	}
	return m.Title
}

// Resource implements console.Data.
func (k *dashboard) Resource(ctx context.Context, name, uri string) (console.ResourceView, error) {
	known, err := k.source(ctx, name)
	if err != nil {
		return console.ResourceView{}, err
	}
	out := console.ResourceView{Source: name, Hit: console.Hit{URI: uri, Length: -1, State: "deleted"}}
	r, err := k.d.st.Resource(ctx, known.ID, uri)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return out, err
	default:
		l := report.ListingOf(r)
		out.Hit, out.Key = hitOf(r), r.Key
		out.SHA256, out.Reason = valueOf(l.SHA256), logging.Redact(valueOf(l.Reason))
		if out.Mirrored = r.Have.State != store.HaveNone; out.Mirrored {
			out.Fetched = r.Have.Fetched.Time()
		}
	}
	switch _, terr := k.d.st.TrashedOf(ctx, known.ID, uri); {
	case terr == nil:
		out.InTrash = true
	case !errors.Is(terr, store.ErrNotFound):
		return out, terr
	}
	lines, err2 := report.History(ctx, k.d.st, known.ID, uri)
	if err2 != nil {
		return out, err2
	}
	if err != nil && len(lines) == 0 && !out.InTrash {
		return out, console.ErrUnknown
	}
	for i := range lines {
		out.History = append(out.History, historyLine(&lines[i]))
	}
	return out, nil
}

func historyLine(l *report.HistoryLine) console.HistoryLine {
	h := console.HistoryLine{At: l.At.Time, What: l.What, Version: l.Version.Time}
	if l.Detail != nil {
		h.Detail = logging.Redact(*l.Detail)
	} else if l.EditLine != nil {
		h.Detail = term.Edit(l.EditLine)
	}
	if h.Evidence = valueOf(l.Evidence); strings.Contains(h.Evidence, "://") {
		h.Evidence = term.URL(h.Evidence)
	}
	return h
}

// Open implements console.Data. The mirror is opened for this one file: what the daemon holds open is its Follower's.
func (k *dashboard) Open(ctx context.Context, name, uri string) (io.ReadCloser, console.FileInfo, error) {
	var info console.FileInfo
	known, err := k.source(ctx, name)
	if err != nil {
		return nil, info, err
	}
	src, isThere := k.d.sources.config().Source(name)
	if !isThere {
		return nil, info, errors.New("the Source is not configured any more: where its mirror lies is not known")
	}
	r, err := k.d.st.Resource(ctx, known.ID, uri)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, info, console.ErrUnknown
	case err != nil:
		return nil, info, err
	case r.Have.State == store.HaveNone:
		return nil, info, fmt.Errorf("it is not in the mirror (%w)", console.ErrUnknown)
	}
	o := mirror.Over(k.d.engine, mirror.Configured(k.d.sources.config(), src))
	o.Known = &known
	if err := o.OpenMirror(false); err != nil {
		return nil, info, errors.New(exit.Advised(err))
	}
	f, found, err := o.Target.Mirror.Open(ctx, r.Key)
	if err != nil {
		if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrNotRegular) {
			err = errors.New("its file is not what it was: `resyncd verify --repair` mends that")
		} else {
			err = errors.New(exit.Advised(err))
		}
		return nil, info, errors.Join(err, o.Close())
	}
	info = console.FileInfo{Name: fileName(r), Type: r.Have.Type, Length: found.Length,
		Modified: r.Have.Version.Until.Time()}
	return &shutting{f, o.Close}, info, nil
}

// shutting closes the mirror with the file.
type shutting struct {
	io.ReadCloser
	also func() error
}

// Close closes both.
func (s *shutting) Close() error { return errors.Join(s.ReadCloser.Close(), s.also()) }

// fileName is what a resource's file is called where it is saved.
func fileName(r *store.Resource) string {
	if u, err := url.Parse(r.URI); err == nil && u.Host != "" {
		if base := path.Base(u.Path); base != "/" && base != "." {
			return base
		}
	}
	return path.Base(r.Key)
}
