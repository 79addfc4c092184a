package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/exit"
)

// TestFullDisksAreTold fills the disk of the mirror or of the state: /readyz says so while it lasts, and `status` does not
// call in step what may not be recorded (F15).
func TestFullDisksAreTold(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]bool{"mirror": false, "state": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := smallDisk(t, "size=24m")
			data, mirror := "", filepath.Join(small, "mirror")
			if state {
				data, mirror = filepath.Join(small, "data"), ""
			}
			o := newOrdeal(t, 5, data, mirror)
			o.configure("@every 10m")
			o.amend(`console: { listen: "" }`, `console: { listen: "127.0.0.1:0" }`)
			o.serveDaemon()
			o.pushed()
			console := regexp.MustCompile(`console +(http://\S+/)`).FindStringSubmatch(o.daemon.out.String())
			if console == nil {
				t.Fatal(o.daemon.out.String())
			}
			ready := func() (int, string) {
				resp, err := http.Get(console[1] + "readyz")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				return resp.StatusCode, string(body)
			}
			inStep := func() bool {
				out, code := o.command("status", "lib")
				if code != exit.Done {
					t.Fatalf("status: %d, %s", code, out)
				}
				return !strings.Contains(out, "NOT in step")
			}
			o.until("all is well", 20*time.Second, func() bool { code, _ := ready(); return code == http.StatusOK && inStep() })
			relieve := sickness{ballast: fillBytes}.burden(t, small)
			o.until("a full disk is told", 15*time.Second, func() bool {
				code, text := ready()
				return code == http.StatusServiceUnavailable && strings.Contains(text, "no space left")
			})
			if state && inStep() {
				t.Error("status says in step while nothing can be recorded")
			}
			relieve()
			o.until("all is well again", 20*time.Second, func() bool { code, _ := ready(); return code == http.StatusOK && inStep() })
		})
	}
}

// TestFullMirrorIsFreed: where the Source itself takes back what fills the disk, a run, and a daemon that is halted already, come
// into step without anybody's help (F6).
func TestFullMirrorIsFreed(t *testing.T) {
	t.Parallel()
	const before, after = 400, 300 // of some 16 KiB each: either fits, both do not
	fresh := func(t *testing.T) *ordeal {
		o := newOrdeal(t, before, "", filepath.Join(smallDisk(t, "size=9m"), "mirror"))
		o.configure("@every 2s")
		o.amend("schedule:", "delete: now, schedule:")
		o.catchUp()
		return o
	}
	give := func(o *ordeal) {
		for i := range after {
			o.put(fmt.Sprintf("new/r%03d.txt", i))
		}
	}
	take := func(o *ordeal) {
		for i := range before {
			o.src.Delete(fmt.Sprintf("d%d/r%03d.txt", i%5, i))
		}
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		take(o)
		give(o)
		o.catchUp()
	})
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.serveDaemon()
		give(o)
		o.until("the disk is full", 30*time.Second, func() bool {
			out, _ := o.command("status", "lib")
			return strings.Contains(out, "the mirror's disk failed or is full")
		})
		take(o)
		o.settled(45 * time.Second)
	})
}
