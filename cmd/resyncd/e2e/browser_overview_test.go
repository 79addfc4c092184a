package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// overview: each Source is a row, with its state in a word, the worst first.
func (b *browser) overview(t *testing.T) {
	p := b.tab(t, "/", 1280)
	rows := eval[[]string](p, `[...document.querySelectorAll('.sources tbody tr')].map(r => r.id.slice(2) + ': ' + r.querySelector('.badge bdi').textContent)`)
	want := []string{
		"museum: failing", "herbarium: removals held", "observatory: removals held", "theatre: paused", "archive: in step", "journal: in step", "library: in step",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	for selector, text := range map[string]string{
		"tr#s-museum .why":          "503 Service Unavailable",
		"tr#s-herbarium .why":       "13 removals are held",
		"tr#s-herbarium td.n .some": "13",
		"tr#s-theatre .why":         "Resume",
		"tr#s-library .ch":          "active",
		"tr#s-library .ch small":    "ends in 9 d",
		"tr#s-journal .why":         "no hub",
		"tr#s-journal .ch":          "none",
		"tr#s-library td.r":         "40",
		"tr#s-library .pp":          "ago",
	} {
		p.shows(selector, text)
	}
	p.shows("#live", "live")
	if bars := eval[[]int](p, `['.spark:not(.l)', '.spark.l'].map(s => document.querySelector('tr#s-library ' + s + ' path').getAttribute('d').split(/[ML ]/).length)`); bars[0] < 20 || bars[1] < 20 {
		t.Errorf("the sparklines hold %d", bars)
	}
	if got := eval[string](p, `document.title`); got != "All Sources · resyncd" && !strings.Contains(got, "resyncd") {
		t.Errorf("the title is %q", got)
	}
	if landmarks := eval[[]string](p, `['header', 'nav[aria-label]', 'main#main', 'footer', 'h1', '[role=search]', 'caption', '.skip[href="#main"]'].filter(s => !document.querySelector(s))`); len(landmarks) > 0 {
		t.Errorf("no %s", landmarks)
	}
	p.clicks("tr#s-museum th a")
	p.shows("#state", "failing")
	p.shows("#why", "503 Service Unavailable")
}

// live: a change at the Source reaches the page by itself, without the page being loaded anew.
func (b *browser) live(t *testing.T) {
	p := b.tab(t, "/", 1280)
	p.shows("#live", "live")
	eval[any](p, `(window.same = document.querySelector('tr#s-library'), document.querySelector('tr#s-library th a').focus(), 1)`)
	put(t, b.library, "maps/100.txt", "a sheet that was not there before")
	p.shows("tr#s-library td.r", "41")
	if !eval[bool](p, `window.same === document.querySelector('tr#s-library') && document.activeElement === window.same.querySelector('th a')`) {
		t.Error("the row is another one now, or lost the focus")
	}
	b.library.Delete("maps/100.txt")
	p.until(`document.querySelector('tr#s-library td.r').firstChild.data.trim() === '40'`)
}

// filter: what is typed narrows the rows while it is typed; a link of a state does, too.
func (b *browser) filter(t *testing.T) {
	p := b.tab(t, "/", 1280)
	names := `[...document.querySelectorAll('.sources tbody tr')].map(r => r.id.slice(2)).join()`
	p.clicks("#q")
	p.types("rium")
	p.until(names + ` === 'herbarium'`)
	if at := eval[string](p, `location.search + document.activeElement.id`); at != "?q=riumq" {
		t.Errorf("the address and the focus are %q", at)
	}
	p.types("x")
	p.shows(".message", "No Source matches")
	p.clicks(".message a")
	p.clicks(".chips a.bad")
	p.until(names + ` === 'museum'`)
	p.shows(".shown", "1 of 7 shown")
}

// keys: Tab goes through the page, past a link that skips its head, and what has the focus is seen to have it.
func (b *browser) keys(t *testing.T) {
	for path, want := range map[string][]string{
		"/":                 {"a.skip", "a.brand", "input#q", "tr#s-museum th a", "tr#s-library th a"},
		"/source/herbarium": {"button.do", "details#sure-pause summary", "details#sure-approve summary", "#t-figure", "#held .uri a"},
	} {
		p := b.tab(t, path, 1280)
		var reached []string
		for range 60 {
			p.presses("\t")
			reached = append(reached, eval[string](p, fmt.Sprintf(`(e => {
				const s = getComputedStyle(e)
				if (e !== document.body && !(s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2)) return 'unseen: ' + e.outerHTML.slice(0, 200)
				return [%s].filter(s => e.matches(s)).join()
			})(document.activeElement)`, "'"+strings.Join(want, "','")+"'")))
		}
		for _, selector := range want {
			if !slices.Contains(reached, selector) {
				t.Errorf("%s: Tab does not reach %s: %q", path, selector, reached)
			}
		}
		for _, r := range reached {
			if strings.HasPrefix(r, "unseen") {
				t.Errorf("%s: %s", path, r)
			}
		}
	}
	p := b.tab(t, "/source/herbarium", 1280)
	eval[any](p, `(document.querySelector('#sure-approve summary').focus(), 1)`)
	p.presses("\r")
	p.until(`document.querySelector('#sure-approve').open`)
	p.presses("\t")
	p.until(`document.activeElement.matches('#sure-approve button.do')`)
}
