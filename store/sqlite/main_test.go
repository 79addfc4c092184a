package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"resyncd/store"
)

// TestMain runs the tests, or, where asked to, the process that a test is going to kill.
func TestMain(m *testing.M) {
	for name, run := range map[string]func(string) error{"RESYNCD_TEST_CHILD": child, "RESYNCD_TEST_DELIVER": deliverForEver} {
		if path := os.Getenv(name); path != "" {
			if err := run(path); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// childStep is how many resources the child records in a commit.
const childStep = 50

// child claims the Source and records resources for ever, telling each commit that succeeded.
func child(path string) error {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	src, err := s.EnsureSource(ctx, "crash", "https://a.example/")
	if err != nil {
		return err
	}
	claim, _, err := s.Claim(ctx, src.ID, "the child")
	if err != nil {
		return err
	}
	set, err := s.EnsureSet(ctx, claim, "list")
	if err != nil {
		return err
	}
	for n := set.Resources; ; {
		c := store.Commit{Claim: claim, Sets: []store.SetChange{{ID: set.ID, Resources: childStep}}}
		for range childStep {
			u := benchURI(int(n))
			c.Resources = append(c.Resources, store.ResourceChange{
				URI: u, Key: u[8:], Want: &store.Want{SetID: set.ID, State: store.WantPresent}, Have: &store.Have{State: store.HavePresent},
				Work: &store.Work{Action: store.ActionFetch}, Content: []byte(u),
			})
			c.Edits = append(c.Edits, store.Edit{URI: "record", Digest: sha256.Sum256([]byte(u))})
			c.Events = append(c.Events, store.Event{URI: u, What: "fetched"})
			n++
		}
		if err := s.Commit(ctx, &c); err != nil {
			return err
		}
		fmt.Println(n)
	}
}
