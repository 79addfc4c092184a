package source

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/destination/peer/source/faults"
	"resyncd/destination/rsdoc"
)

// TestNotifyFaults looks at what arrives of six notifications.
func TestNotifyFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"seed=1":           "1 2 3 4 5 6",
		"notify-drop=3":    "1 2 4 5",
		"notify-double=2":  "1 2 2 3 4 4 5 6 6",
		"notify-shuffle=2": "1 3 2 5 4 6",
		"notify-forge=5":   "1 2 3 4 -5 6",
		"notify-drop=2,notify-double=3,notify-shuffle=5": "1 3 3 5",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, err := faults.Parse(fault)
				if err != nil {
					t.Fatal(err)
				}
				k := &script{}
				heard := 0
				s := scriptedSource(t, Options{Faults: f, Logger: hear(func(n notification) {
					if n.kind == rsdoc.KindChangeNotification {
						heard++
					}
				})}, k)
				stop := running(t, s)
				defer stop()
				for i := range 6 {
					mustPut(t, s, "a", fmt.Sprint(i+1))
					synctest.Wait()
				}
				<-time.After(time.Minute)
				synctest.Wait()
				var got bytes.Buffer
				for i, n := range asTold(t, k.on(s.at(changeTopic))) {
					if i > 0 {
						got.WriteByte(' ')
					}
					sums := map[[32]byte]int{}
					for i := range 6 {
						sums[sumOf(fmt.Sprint(i+1))] = i + 1
					}
					switch e := n.entries[0]; e.Change {
					case rsdoc.ChangeDeleted:
						got.WriteString("-5")
					default:
						fmt.Fprint(&got, sums[sha256Of(t, e)])
					}
				}
				if got.String() != want {
					t.Errorf("arrived %s, want %s", got.String(), want)
				}
				if heard < 6 {
					t.Errorf("heard of %d", heard)
				}
			})
		})
	}
	for _, bad := range []string{"notify-drop=0", "notify-drop=-1", "notify-drop=x", "notify-eat=1", "doc-notify-drop=1"} {
		if _, err := faults.Parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
