package health

import (
	"os"
	"regexp"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/sync/transfer"
)

// TestWords: what the code says is in the file of words, nothing else is, and causes are those that errors name.
func TestWords(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	text, err := os.ReadFile("assess.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`\bsay\("([^"]*)"`).FindAllSubmatch(text, -1) {
		said[string(found[1])] = true
		if words().Findings[string(found[1])].State == "" && words().Findings[string(found[1])].Why == "" {
			t.Errorf("there are no words for %q", found[1])
		}
	}
	if len(said) != len(words().Findings) {
		t.Errorf("%d findings are said, there are words for %d", len(said), len(words().Findings))
	}
	causes := []string{
		fetch.CauseServer, fetch.CauseHost, fetch.CauseConnection, fetch.CauseCertificate, fetch.CauseTLS, fetch.CauseAddress, rsdoc.CausePage,
		store.CauseClock, fetch.TooLarge.String(), transfer.ClassNoRoom, transfer.ClassMismatch,
	}
	for _, code := range []string{"401", "403", "404", "407", "410", "429"} {
		causes = append(causes, fetch.CauseStatus+code)
	}
	for _, cause := range causes {
		if words().Causes[cause].Do == "" {
			t.Errorf("nothing is said of %s", cause)
		}
	}
	if len(causes) != len(words().Causes) {
		t.Errorf("%d causes, there are words for %d", len(causes), len(words().Causes))
	}
	for _, cause := range []string{fetch.CauseConnection, fetch.CauseHost, fetch.CauseStatus + "404", fetch.CauseStatus + "405"} {
		if words().Hubs[cause] == "" {
			t.Errorf("nothing is said of a hub with %s", cause)
		}
	}
}
