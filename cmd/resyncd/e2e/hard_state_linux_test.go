package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store"
	"resyncd/store/sqlite"
)

// watchedState is a process that opens a state database, tells how many resources it has, records more, tells each commit
// that succeeded, and ends orderly.
func watchedState() {
	err := handOver(3)
	if err == nil {
		err = recordResources(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exit.Failed)
	}
}

func recordResources(path string) (err error) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	src, err := s.EnsureSource(ctx, "lib", "https://a.example/")
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
	fmt.Println("has", set.Resources)
	for n, end := set.Resources, set.Resources+rand.Int64N(200); n < end; {
		key := fmt.Sprintf("%06d", n)
		err := s.Commit(ctx, &store.Commit{
			Claim: claim, Sets: []store.SetChange{{ID: set.ID, Resources: 1}},
			Resources: []store.ResourceChange{{
				URI: "https://a.example/" + key, Key: key, Want: &store.Want{SetID: set.ID, State: store.WantPresent},
				Have: &store.Have{State: store.HavePresent}, Work: &store.Work{Action: store.ActionFetch},
			}},
			Events: []store.Event{{URI: "https://a.example/" + key, What: "fetched", Detail: strings.Repeat("x", rand.IntN(2000))}},
		})
		if errors.Is(err, store.ErrUnsure) {
			return err
		}
		if err == nil {
			n++
			fmt.Println("told", n)
		}
	}
	return nil
}

// stateTrial has one process after the other work on a state database.
type stateTrial struct {
	t    *testing.T
	dir  string
	told int64 // so many resources were told of
}

func newStateTrial(t *testing.T) *stateTrial { return &stateTrial{t: t, dir: freshRAM(t)} }

// run has a process work until its end, or be killed after a while. What was told of before has to be there.
func (s *stateTrial) run(lasts time.Duration, judge func(deed) ruling) (said string, opened bool) {
	s.t.Helper()
	p := &process{cmd: exec.Command("resyncd-watched-state", filepath.Join(s.dir, mirror.StateFile))}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.out, &p.err, childEnv()
	w := watch(s.t, p.cmd, []string{s.dir}, judge, func(cmd *exec.Cmd) {
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
	})
	kill := time.AfterFunc(lasts, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait() // it may fail of the disk, and be killed
	<-w.done
	for line := range strings.Lines(p.out.String()) {
		var n int64
		if _, err := fmt.Sscanf(line, "has %d", &n); err == nil {
			opened = true
			if n < s.told {
				s.t.Errorf("the state has %d resources, and told of %d", n, s.told)
			}
		}
		if _, err := fmt.Sscanf(line, "told %d", &n); err == nil {
			s.told = n
		}
	}
	if said = p.err.String(); strings.Contains(said, "damaged") || strings.Contains(said, "panic") {
		s.t.Error(said)
	}
	return said, opened
}

// TestFailedOpenKeepsTheLog has the index of the log fail twice while a database is opened: what a killed process left in the
// log is there afterwards (P3).
func TestFailedOpenKeepsTheLog(t *testing.T) {
	t.Parallel()
	s := newStateTrial(t)
	syncs := 0
	s.run(time.Minute, func(d deed) ruling {
		if d.kind == "sync" {
			if syncs++; syncs > 20 {
				return die
			}
		}
		return 0
	})
	if s.told == 0 {
		t.Fatal("nothing was recorded")
	}
	deeds := 0
	said, opened := s.run(time.Minute, func(d deed) ruling {
		if !strings.HasSuffix(d.path, "-shm") {
			return 0
		}
		switch deeds++; {
		case deeds == 2 && d.kind == "write", deeds == 3 && d.kind == "create":
			return unix.ENOSPC
		}
		return 0
	})
	if opened || deeds < 3 {
		t.Fatalf("the database could be opened, or its log's index was touched %d times only: %s", deeds, said)
	}
	if said, opened := s.run(time.Minute, func(deed) ruling { return 0 }); !opened {
		t.Fatal(said)
	}
}

// TestChaosOfState has processes killed while the disk of their state fails: what they told of stays, and the database is
// never damaged. It lasts as long as TestChaos.
func TestChaosOfState(t *testing.T) {
	t.Parallel()
	lasts, seed := chaosSettings(t)
	dice := rand.New(rand.NewPCG(seed, 0))
	s := newStateTrial(t)
	ills := illnesses()
	ills = append(ills, illness{name: "none", rules: func(deed, int) ruling { return 0 }})
	runs, opens := 0, 0
	for end := time.Now().Add(lasts); time.Now().Before(end) && !t.Failed(); runs++ {
		ill := ills[dice.IntN(len(ills))]
		well := time.Now().Add(time.Duration(dice.IntN(300)) * time.Millisecond)
		said, opened := s.run(time.Duration(1+dice.IntN(200))*time.Millisecond, func(d deed) ruling {
			if time.Now().After(well) {
				return 0
			}
			return ill.rules(d, dice.IntN(100))
		})
		if opened {
			opens++
		}
		if t.Failed() {
			t.Logf("run %d, the disk being ill: %s: %s", runs, ill.name, said)
		}
	}
	if s.told == 0 {
		t.Error("nothing was recorded")
	}
	t.Logf("seed %d: %d runs, %d opened the database, %d resources told of", seed, runs, opens, s.told)
}
