package transfer

import (
	"context"

	"resyncd/destination/fetch"
	"resyncd/destination/rspack"
	"resyncd/destination/safe"
)

// via is what brought the bytes of a resource.
type via uint8

const (
	viaNothing via = iota
	viaDocument
	viaPackage
	viaSource
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
	{viaSource, (*Reconciler).atSource, (*Reconciler).fromSource},
}

// carry tries transports until one brings bytes that prove right.
func (r *Reconciler) carry(ctx context.Context, a *attempt, o *outcome) (res fetch.Result, err error) {
	for i := range transports {
		t := &transports[i]
		if !t.has(r, a, o) {
			continue
		}
		if a.body.used {
			if err := a.body.Reset(); err != nil {
				return res, &failure{class: classDisk, reason: err.Error()}
			}
		}
		if t.decides() {
			res, err = r.carryBy(ctx, t, a, o)
			a.failed = err
		} else {
			res, err = r.carrySafely(ctx, t, a, o)
		}
		if err == nil {
			o.via = t.via
			return res, nil
		}
		if a.ctx.Err() != nil {
			return res, err
		}
		if t.decides() {
			continue
		}
		r.s.Log.Debug("bytes of a resource could not be used; another way is tried", "uri", o.res.URI, "err", err)
		if t.via == viaPackage {
			a.offer.Package.spoilt.Add(1)
		}
	}
	return res, a.failed
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

// carrySafely has a panic cost the transport only.
func (r *Reconciler) carrySafely(
	ctx context.Context, t *transport, a *attempt, o *outcome,
) (res fetch.Result, err error) {
	err = safe.Do(func() (err error) {
		res, err = r.carryBy(ctx, t, a, o)
		return err
	})
	return res, err
}

func (r *Reconciler) inDocument(_ *attempt, o *outcome) bool { return o.want.Inline }

func (r *Reconciler) atSource(_ *attempt, o *outcome) bool { return !o.want.Inline }

func (r *Reconciler) inPackage(a *attempt, o *outcome) bool {
	return a.offer != nil && a.offer.Member != rspack.Member{} && a.offer.fits(o.want)
}

// fromPackage has the bytes of a member.
func (r *Reconciler) fromPackage(ctx context.Context, a *attempt, o *outcome) (fetch.Result, error) {
	m, offer := a.offer.Member, a.offer
	err := r.tooLarge(m.Length)
	if offer.Length >= 0 && offer.Length != m.Length {
		err = mismatch("the member has %d bytes, its manifest says %d", m.Length, offer.Length)
	}
	if err == nil {
		err = r.room(ctx, m.Length)
	}
	if err == nil {
		a.body.offer(offer.Digests)
		_, err = offer.Package.zip.Read(m, writer(func(p []byte) (int, error) {
			if a.ctx.Err() != nil {
				return 0, context.Cause(a.ctx)
			}
			return a.body.Write(p)
		}))
	}
	return fetch.Result{Info: fetch.Info{Type: o.want.Type}}, err
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
