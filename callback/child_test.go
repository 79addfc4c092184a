package callback

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"resyncd/store"
	"resyncd/store/sqlite"
)

// child is this test binary as another process.
func child(t *testing.T, as string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), append(env, "RESYNCD_TEST_CHILD="+as)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestKill: what was acknowledged is in the inbox, whenever the process was killed (P4).
func TestKill(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state.db")
	acked := map[string]bool{}
	var after int64
	for round := range 3 {
		cmd := child(t, "kill", "RESYNCD_TEST_STATE="+state)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		addr, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal("the child did not come up")
		}
		url := "http://" + strings.TrimSpace(addr) + "/cb/" + tokenOf
		c := client(t)
		var mu sync.Mutex
		var posters sync.WaitGroup
		enough := make(chan struct{}, 1<<16)
		for p := range 8 {
			posters.Go(func() {
				for n := 0; ; n++ {
					body := fmt.Sprintf("round %d poster %d note %d", round, p, n)
					resp, _, err := try(t.Context(), c, "POST", url, body, "X-Hub-Signature", sign(body))
					if err != nil {
						return
					}
					if resp.StatusCode == http.StatusOK {
						mu.Lock()
						acked[body] = true
						mu.Unlock()
						enough <- struct{}{}
					}
				}
			})
		}
		for range 100 + 70*round {
			<-enough
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		posters.Wait()
		_ = cmd.Wait()
		s, err := sqlite.Open(t.Context(), state, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Deliveries(t.Context(), store.InboxQuery{SourceID: 1, After: after, Limit: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			after = d.ID
			delete(acked, string(d.Body))
		}
		for body := range acked {
			t.Errorf("acknowledged and lost: %s", body)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killChild serves on loopback until it is killed.
func killChild(state string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, state, sqlite.Options{})
	if err != nil {
		return err
	}
	if err := subscribe(ctx, s); err != nil {
		return err
	}
	c := New(Options{Store: s, Keeper: &fakeKeeper{}, BasePath: "/cb"})
	c.SetReady(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = c.Run(ctx) }()
	fmt.Println(l.Addr())
	return Serve(ctx, ServerOptions{Listener: l, Handler: c})
}

// subscribe makes the signed subscription of a real store, if it is not there yet.
func subscribe(ctx context.Context, s *sqlite.Store) error {
	src, err := s.EnsureSource(ctx, "example", "http://source.example/")
	if err != nil {
		return err
	}
	if have, err := s.Subscriptions(ctx, src.ID, false); err != nil || len(have) > 0 {
		return err
	}
	claim, _, err := s.Claim(ctx, src.ID, "a test")
	if err != nil {
		return err
	}
	set, err := s.EnsureSet(ctx, claim, "http://source.example/cap.xml")
	if err != nil {
		return err
	}
	return s.AddSubscription(ctx, &store.Subscription{
		SourceID: src.ID, SetID: set.ID, Kind: store.ChannelChange, Topic: topic, Hub: "http://hub.example/",
		Token: tokenOf, Secret: secret, State: store.SubActive,
	})
}

// TestListen: sockets of systemd are taken by name, or if there is only one; else an address is opened.
func TestListen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		names string // of the sockets, LISTEN_FDNAMES
		n     int
		takes int // the socket expected, 0 for the address, -1 for an error
	}{
		"none":             {"", 0, 0},
		"one without name": {"", 1, 1},
		"one by its unit":  {"resyncd.socket", 1, 1},
		"by name":          {"console:callback", 2, 2},
		"several, unnamed": {"console:other", 2, -1},
		"two of the name":  {"callback:callback", 2, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := child(t, "listen", "LISTEN_FDS="+strconv.Itoa(tc.n), "LISTEN_FDNAMES="+tc.names)
			want := "127.0.0.1:" // any port
			for i := range tc.n {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				f, err := l.(*net.TCPListener).File()
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				cmd.ExtraFiles = append(cmd.ExtraFiles, f)
				if i+1 == tc.takes {
					want = l.Addr().String() + "\n"
				}
			}
			out, err := cmd.Output()
			if tc.takes < 0 {
				if err == nil {
					t.Errorf("took %s", out)
				}
				return
			}
			if err != nil || !strings.HasPrefix(string(out), want) {
				t.Errorf("took %s, want %s (%v)", out, want, err)
			}
		})
	}
	if _, err := Listen("no address"); err == nil || !strings.Contains(err.Error(), "listen for hubs on no address") {
		t.Error(err)
	}
}

// listenChild takes over what it was given, twice.
func listenChild() int {
	_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println(l.Addr())
	second, err := Listen("127.0.0.1:0")
	if err != nil || second.Addr().String() == l.Addr().String() {
		return 2
	}
	return 0
}
