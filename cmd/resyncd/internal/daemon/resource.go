package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"

	"resyncd/cmd/resyncd/internal/console"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
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
		out.Items = append(out.Items, report.ListingOf(r))
	}
	return out, err
}

// Resource implements console.Data.
func (k *dashboard) Resource(ctx context.Context, name, uri string) (console.ResourceView, error) {
	out := console.ResourceView{Listing: report.Listing{URI: uri}}
	known, err := k.source(ctx, name)
	if err != nil {
		return out, err
	}
	r, err := k.d.st.Resource(ctx, known.ID, uri)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return out, err
	default:
		if out.Listing = report.ListingOf(r); r.Have.State != store.HaveNone {
			out.Fetched = r.Have.Fetched.Time()
		}
	}
	switch _, terr := k.d.st.TrashedOf(ctx, known.ID, uri); {
	case terr == nil:
		out.InTrash = true
	case !errors.Is(terr, store.ErrNotFound):
		return out, terr
	}
	var herr error
	if out.History, herr = report.History(ctx, k.d.st, known.ID, uri); herr != nil {
		return out, herr
	}
	if err != nil && len(out.History) == 0 && !out.InTrash {
		return out, console.ErrUnknown
	}
	return out, nil
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
