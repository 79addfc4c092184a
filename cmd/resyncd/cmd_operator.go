package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/cmd/resyncd/internal/term"
	"resyncd/destination/subscribe"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// onOpened is what a command does with a Source whose state is open.
type onOpened func(context.Context, *mirror.Opened) error

// withSource opens the state of the Source that the first argument names.
func (sh *shell) withSource(write bool, work onOpened) error {
	p, err := sh.mirrors.Place(sh.c.Args().First())
	if err != nil {
		return err
	}
	return sh.withPlace(&p, write, work)
}

func (sh *shell) withPlace(p *mirror.Place, write bool, work onOpened) (err error) {
	o, err := sh.mirrors.OpenKnown(sh.c.Context, p, write)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return work(sh.c.Context, o)
}

// eachSource opens the state of every Source that is named, or of all; one that was never synchronised has nothing to
// show.
func (sh *shell) eachSource(write bool, work onOpened) error {
	ps, err := sh.mirrors.Places(sh.c.Args().Slice())
	if err != nil {
		return err
	}
	var v exit.Verdict
	err = sh.each(ps, &v, true, func(p *mirror.Place) error {
		err := sh.withPlace(p, write, work)
		if errors.Is(err, store.ErrNotFound) && sh.c.NArg() == 0 && len(ps) > 1 {
			return nil
		}
		if err == nil {
			v.Parts++
		}
		return err
	})
	return cmp.Or(err, v.Err())
}

// each does work on every place and counts those it fails for; one does not stop the others, but the error of the only
// one is returned where alone says so, and that of an interruption always.
func (sh *shell) each(ps []mirror.Place, v *exit.Verdict, alone bool, work func(*mirror.Place) error) error {
	for i := range ps {
		err := work(&ps[i])
		switch {
		case sh.c.Context.Err() != nil, err != nil && alone && len(ps) == 1:
			return err
		case err != nil:
			v.Fail(err)
			sh.Say("%s: %s", ps[i].Label(), exit.Advised(err))
		}
	}
	return nil
}

// watched has the engine work on a Source while its progress is shown.
func (sh *shell) watched(
	ctx context.Context, o *mirror.Opened, opts syncengine.RunOptions,
	work func(context.Context, syncengine.RunOptions) error,
) error {
	defer o.Connect()()
	progress := sh.Progress(o.Source.Name, sh.c.Bool("quiet"))
	opts.RetryFor, opts.Progress = o.Config.Network.RetryFor, progress.Note
	return progress.While(ctx, func(ctx context.Context) error { return work(ctx, opts) })
}

// put writes a result: v as a line of JSON where that was asked for, else a line of text.
func (sh *shell) put(w io.Writer, v any, format string, args ...any) error {
	if sh.c.Bool("json") {
		return term.JSONTo(w).Encode(v)
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// ask is a command that the daemon carries out on the Source that the first argument names, and that is carried out
// here where no daemon holds it.
func (sh *shell) ask(command string) func() error {
	return func() error {
		asked := control.Args{
			Reject: sh.c.Bool("reject"), URI: sh.c.Args().Get(1), WithMirror: sh.c.Bool("with-mirror"),
		}
		return sh.withSource(true, func(ctx context.Context, o *mirror.Opened) error {
			return sh.askOpened(ctx, o, command, asked)
		})
	}
}

func (sh *shell) askOpened(ctx context.Context, o *mirror.Opened, command string, asked control.Args) error {
	if done, err := control.Delegate(ctx, o, sh.Out, command, asked); done || err != nil {
		return err
	}
	said, err := sh.alone(ctx, o, command, asked)
	if errors.Is(err, syncengine.ErrStopped) {
		return fmt.Errorf("%s is paused: run `resyncd source resume %s` first", o.Label(), o.Label())
	}
	if err == nil {
		err = sh.Print("%s\n", said)
	}
	return err
}

// alone carries out a command without a daemon and says what it did. What is asked of hubs is recorded for the next
// daemon.
func (sh *shell) alone(
	ctx context.Context, o *mirror.Opened, command string, asked control.Args,
) (said string, err error) {
	st := o.Engine.Store
	if command == control.AskApprove || command == control.AskRestore || asked.WithMirror {
		if err := o.OpenMirror(true); err != nil {
			return "", err
		}
		defer o.Connect()()
	}
	keeper := subscribe.New(subscribe.Options{Store: st, Now: sh.Now})
	record := keeper.Renew
	switch command {
	case control.AskApprove:
		done, err := o.Engine.Approve(ctx, o.Target, asked.Reject)
		return term.Approved(&done), err
	case control.AskRestore:
		back, err := o.Engine.Restore(ctx, o.Target, asked.URI)
		return term.Restored(&back), err
	case control.AskPause:
		return "paused " + o.Label(), st.SetPaused(ctx, o.Known.ID, true)
	case control.AskResume:
		return "resumed " + o.Label(), st.SetPaused(ctx, o.Known.ID, false)
	case control.AskForget:
		return "forgot " + o.Label(), sh.forget(ctx, o, asked.WithMirror)
	case control.AskCancel:
		record = keeper.Cancel
	}
	n, err := record(ctx, o.Known.ID, asked.Topic)
	// A daemon may be there all the same: the Source was paused, or is just being taken up again.
	return fmt.Sprintf("%s: recorded for %d subscriptions; `resyncd serve` carries it out, within half a minute where "+
		"one runs", o.Label(), n), err
}

// forget drops a Source and tells of the leases that it leaves.
func (sh *shell) forget(ctx context.Context, o *mirror.Opened, withMirror bool) error {
	subs, err := o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil {
		return err
	}
	o.Target.Name = o.Source.Name
	if err := o.Engine.Forget(ctx, o.Target, withMirror); err != nil {
		return err
	}
	for i := range subs {
		if subs[i].Live() {
			sh.Say("%s", term.LeaseLeft(&subs[i]))
		}
	}
	return nil
}

// askHubs has hubs asked about the subscriptions of all Sources that are meant.
func (sh *shell) askHubs(command string) func() error {
	return func() error {
		found := 0
		err := sh.eachSource(true, func(ctx context.Context, o *mirror.Opened) error {
			subs, topic, err := sh.matching(ctx, o)
			if err != nil || len(subs) == 0 {
				return err
			}
			found += len(subs)
			return sh.askOpened(ctx, o, command, control.Args{Topic: topic})
		})
		if err == nil && found == 0 {
			err = errors.New("no subscription matches: see `resyncd subscription list`")
		}
		return err
	}
}

// matching are the subscriptions that are meant; topic is theirs, "" for all.
func (sh *shell) matching(ctx context.Context, o *mirror.Opened) (subs []store.Subscription, topic string, err error) {
	subs, err = o.Engine.Store.Subscriptions(ctx, o.Known.ID, false)
	if err != nil || !sh.c.IsSet("topic") {
		return subs, "", err
	}
	topic = term.TopicNamed(subs, sh.c.String("topic"))
	return slices.DeleteFunc(subs, func(s store.Subscription) bool { return s.Topic != topic }), topic, nil
}
