package transfer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/rspack"
	"resyncd/destination/safe"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/parsed"
)

// via is what brought the bytes of a resource.
type via string

const (
	viaNothing   via = ""
	viaDocument  via = "document"
	viaPackage   via = "package"
	viaPatch     via = "patch"
	viaDuplicate via = "duplicate"
	viaSource    via = "source"
)

// transport brings the bytes of a want into an empty body. has tells whether it is to be tried.
type transport struct {
	via   via
	has   func(*Reconciler, *attempt, *outcome) bool
	bring func(*Reconciler, context.Context, *attempt, *outcome) (fetch.Result, error)
}

// decides tells that the failure of a transport is that of the resource. Other failures cost one more try.
func (t *transport) decides() bool { return t.via == viaDocument || t.via == viaSource }

// transports stand in the order in which they are tried.
var transports = [...]transport{
	{viaDocument, (*Reconciler).inDocument, (*Reconciler).fromDocument},
	{viaPackage, (*Reconciler).inPackage, (*Reconciler).fromPackage},
	{viaPatch, (*Reconciler).canPatch, (*Reconciler).fromPatch},
	{viaDuplicate, (*Reconciler).prefersDuplicate, (*Reconciler).fromDuplicate},
	{viaSource, (*Reconciler).atSource, (*Reconciler).fromSource},
	{viaDuplicate, (*Reconciler).needsDuplicate, (*Reconciler).fromDuplicate},
}

// carry tries transports until one brings bytes that prove right.
func (r *Reconciler) carry(ctx context.Context, a *attempt, o *outcome) (fetch.Result, error) {
	for i := 0; i < len(transports); {
		t := &transports[i]
		if !t.has(r, a, o) {
			i++
			continue
		}
		if a.body.used {
			if err := a.body.Reset(); err != nil {
				return fetch.Result{}, &failure{class: classDisk, reason: err.Error()}
			}
		}
		var res fetch.Result
		err := safe.Do(func() (err error) { // a panic costs the transport only
			res, err = r.carryBy(ctx, t, a, o)
			return err
		})
		member := a.offer != nil && t.via <= viaPatch && a.link == nil
		if err == nil {
			if o.via = t.via; member {
				a.offer.Package.brought()
			}
			return res, nil
		}
		if a.ctx.Err() != nil || errors.Is(err, blob.ErrNoSpace) {
			return res, err
		}
		if t.decides() {
			a.failed = err
		} else {
			level := slog.LevelDebug
			if _, bug := errors.AsType[*safe.PanicError](err); bug {
				level = slog.LevelError
			}
			r.s.Log.Log(ctx, level, "bytes could not be used; another way is tried", "uri", o.res.URI, "err", err)
			if member {
				a.offer.Package.spoilt.Add(1)
			}
		}
		if t.via != viaDuplicate { // of which there may be several
			i++
		}
	}
	return fetch.Result{}, a.failed
}

// carryBy checks what a transport brought, whatever it is (CONTRIBUTING.md 3.12).
func (r *Reconciler) carryBy(ctx context.Context, t *transport, a *attempt, o *outcome) (fetch.Result, error) {
	res, err := t.bring(r, ctx, a, o)
	if err != nil || res.NotModified {
		return res, err
	}
	proven, err := a.body.check(o.want, &res)
	if err == nil && (!proven || o.news(&a.body)) {
		err = r.prove(ctx, a, o)
	}
	return res, err
}

func (r *Reconciler) inDocument(_ *attempt, o *outcome) bool { return o.want.Inline }

func (r *Reconciler) inPackage(a *attempt, o *outcome) bool {
	return a.offer != nil && a.offer.Member != rspack.Member{} && a.offer.Fits(o.want)
}

// canPatch takes a patch only for a copy whose bytes are known, and only where a digest proves the result.
func (r *Reconciler) canPatch(a *attempt, o *outcome) bool {
	h := &o.res.Have
	if !r.s.Means.Patches || o.want.State != store.WantPresent || !a.body.isListed() ||
		h.State != store.HavePresent || h.Checked == "" || h.Length > patchMost || r.s.suspects(o.res) {
		return false
	}
	links := parsed.ParseLinks(o.want.Links)
	if slices.ContainsFunc(links, func(l parsed.Link) bool { return l.Joined }) {
		return false
	}
	if a.offer != nil && a.offer.Patch != (rspack.Member{}) && a.offer.Fits(o.want) {
		return a.offer.Patch.Length <= patchMost
	}
	i := slices.IndexFunc(links, func(l parsed.Link) bool { return l.Rel == rsdoc.RelPatch && IsPatch(l.Type) })
	if i >= 0 {
		a.link = &links[i]
	}
	return i >= 0
}

// fromPackage has the bytes of a member.
func (r *Reconciler) fromPackage(ctx context.Context, a *attempt, o *outcome) (fetch.Result, error) {
	m, offer := a.offer.Member, a.offer
	if err := cmp.Or(r.tooLarge(m.Length), r.room(ctx, m.Length)); err != nil {
		return fetch.Result{}, err
	}
	if offer.Length >= 0 && offer.Length != m.Length {
		return fetch.Result{}, mismatch("the member has %d bytes, its manifest says %d", m.Length, offer.Length)
	}
	a.body.offer(offer.Digests)
	_, err := offer.Package.zip.Read(m, writer(func(p []byte) (int, error) {
		if a.ctx.Err() != nil {
			return 0, context.Cause(a.ctx)
		}
		return a.body.Write(p)
	}))
	return fetch.Result{Info: fetch.Info{Type: o.want.Type}}, err
}

// atSource: the URI of an inline resource is only its identity.
func (r *Reconciler) atSource(_ *attempt, o *outcome) bool { return !o.want.Inline }

// prefersDuplicate leaves out those that hang: they hold a place as long as they would from the Source.
func (r *Reconciler) prefersDuplicate(a *attempt, o *outcome) bool {
	return r.s.Means.Duplicates == "prefer" && !a.patient && a.nextDuplicate(o)
}

// needsDuplicate finds one more in place of what the Source itself should have brought. What it may not be asked for is
// not wanted from others.
func (r *Reconciler) needsDuplicate(a *attempt, o *outcome) bool {
	on := r.s.Means.Duplicates == "prefer" || r.s.Means.Duplicates == "fallback"
	_, wrong := errors.AsType[*failure](a.failed)
	fe, asked := errors.AsType[*fetch.Error](a.failed)
	return on && (wrong || asked && (fe.Kind != fetch.Refused || fe.Hop > 0)) && a.nextDuplicate(o)
}

// duplicatesMost bounds the requests for one resource (P8).
const duplicatesMost = 3

// nextDuplicate finds an address at which a digest proves the bytes, in the order of the Source's preference.
func (a *attempt) nextDuplicate(o *outcome) bool {
	if a.duplicates == nil && a.body.isListed() && !o.want.Inline {
		a.duplicates = slices.DeleteFunc(parsed.ParseLinks(o.want.Links), func(l parsed.Link) bool {
			scheme, _, _ := strings.Cut(strings.ToLower(l.Href), "://")
			return !strings.EqualFold(l.Rel, rsdoc.RelDuplicate) || l.Href == o.res.URI ||
				scheme != "http" && scheme != "https"
		})
		slices.SortStableFunc(a.duplicates, func(x, y parsed.Link) int {
			return cmp.Compare(uint(x.Pri-1), uint(y.Pri-1)) // 0, which is none, comes last
		})
		a.duplicates = a.duplicates[:min(len(a.duplicates), duplicatesMost)]
	}
	if len(a.duplicates) == 0 {
		return false
	}
	a.link, a.duplicates = &a.duplicates[0], a.duplicates[1:]
	return true
}

// fromDuplicate asks beyond the scope too. Validators of another address would be sent to the Source's own.
func (r *Reconciler) fromDuplicate(_ context.Context, a *attempt, o *outcome) (fetch.Result, error) {
	req := r.request(o)
	req.URL, req.InScope, req.MaxBytes = a.link.Href, nil, r.s.Means.MaxResource
	res, err := r.get(a, o, req, &a.body, o.want.Length)
	res.ETag, res.LastModified = "", ""
	return res, err
}

// get downloads what may be broken off.
func (r *Reconciler) get(
	a *attempt, o *outcome, req fetch.Request, to *body, length int64,
) (fetch.Result, error) {
	req.Waiting = a.silence.waits
	res, err := r.download(a.ctx, o, req, to, length)
	a.silence.end(err)
	return res, err
}

func (r *Reconciler) download(
	ctx context.Context, o *outcome, req fetch.Request, to *body, length int64,
) (fetch.Result, error) {
	began := time.Now()
	opt := fetch.DownloadOptions{Resume: to.isListed(), DeclaredLength: length}
	res, err := r.s.Means.Client.Download(ctx, req, to, opt)
	o.bytes += res.Bytes
	o.spent(time.Since(began), err)
	return res, err
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
