package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"resyncd/cmd/resyncd/internal/console"
)

// gapOpensAndCloses: a lost notification is a hole in the picture, open while the Source's list lags, and then closed by
// that list. The page shows both by itself.
func (b *browser) gapOpensAndCloses(t *testing.T) {
	p := b.tab(t, "/source/archive?zoom=10-minutes", 1280)
	p.shows("#live", "live")
	eval[any](p, `(window.same = document.querySelector('#state'), 1)`)
	p.until(`document.querySelectorAll('#timeline .k-notification rect').length > 0 && document.querySelectorAll('#timeline .k-change-list rect').length > 0 && document.querySelectorAll('#timeline .k-baseline rect').length > 0`)
	b.gap(t, 1)
	p.until(`document.querySelectorAll('#timeline .k-gap rect.open').length === 1`)
	p.shows("#state", "list lags")
	p.shows("#why", "lags behind a notification")
	p.until(`document.querySelector('#timeline .k-gap rect.open title').textContent.startsWith('Gap of ')`)
	p.shows("#timeline .tall tbody .badge", "lagging")
	p.shot("source-1280-light-gap-open")
	b.archive.Rotate()
	b.does(t, console.Action{Kind: console.Pull, Source: "archive"})
	p.until(`document.querySelectorAll('#timeline .k-gap rect.closed.by-change-list').length === 1 && !document.querySelector('#timeline .k-gap rect.open')`)
	p.shows("#state", "in step")
	p.shows("#timeline .tall tbody tr td small", "change-list")
	if !eval[bool](p, `window.same === document.querySelector('#state')`) {
		t.Error("the page was loaded anew")
	}
	p.shot("source-1280-light-gap-closed")
	p.paints("dark")
	p.shot("source-1280-dark-gap-closed")
	o := b.tab(t, "/", 1280)
	o.shows("tr#s-archive .badge bdi", "in step")
}

// zoom: links and keys show another stretch of time; the table says what the picture does.
func (b *browser) zoom(t *testing.T) {
	p := b.tab(t, "/source/archive", 1280)
	window := `(f => f.dataset.until - f.dataset.from)(document.querySelector('#t-figure'))`
	begin := `+document.querySelector('#t-figure').dataset.from`
	p.clicks(`.zoom nav:first-child li:last-child a`)
	p.until(window + ` === 365 * 86400e3`)
	p.clicks(`.zoom nav:first-child li:nth-child(2) a`)
	p.until(window + ` === 600e3`)
	was := eval[float64](p, begin)
	p.clicks(`#t-back`)
	p.until(begin + ` < ` + fmt.Sprintf("%.0f", was-200e3))
	eval[any](p, `(document.querySelector('#t-figure').focus(), 1)`)
	p.presses("-")
	p.until(window + ` === 3600e3`)
	p.presses("+")
	p.until(window + ` === 600e3`)
	p.clicks(`#t-live`)
	p.until(`!document.querySelector('#t-live') && new URL(location).searchParams.get('until') === null`)
	p.clicks(`#timeline .tall tbody tr td:last-child a`)
	p.until(window + ` <= 600e3 && new URL(location).searchParams.get('until') !== null && !!document.querySelector('.k-gap rect.closed')`)
	p.clicks(`#t-table summary`)
	p.shows(`#t-table tbody`, "Notifications")
	p.shows(`#t-table tbody`, "Change Lists")
	p.do(chromedp.NavigateBack())
	p.until(`!document.querySelector('#t-live')`)
}

// approve: the files go when the button behind the question is pressed, and one comes back from the trash.
func (b *browser) approve(t *testing.T) {
	p := b.tab(t, "/source/herbarium", 1280)
	p.shows("#held h2", "13 files wait")
	p.clicks("#sure-approve summary")
	p.shows("#sure-approve p", "Deletes 13 files")
	p.shot("source-1280-light-approve")
	p.clicks("#sure-approve button.do")
	p.shows("#flash", "13")
	p.shows("#state", "in step")
	p.until(`!document.querySelector('#held')`)
	b.becomes(t, "herbarium", func(r console.Row) bool { return r.Held == 0 && r.Resources == 2 })

	p.clicks(`.head.source .filter input`)
	p.types("sheets/007\r")
	p.until(`document.querySelectorAll('.list tbody tr').length === 1`)
	p.shows(".list tbody th", "sheets/007.txt")
	p.clicks(".list tbody th a")
	p.shows("h1", "sheets/007.txt")
	p.clicks("#sure-restore summary")
	p.clicks("#sure-restore button.do")
	p.shows("#flash", "restored")
	p.until(`!!document.querySelector('a.button[download]') && !document.querySelector('#sure-restore')`)
	p.shows("#h-history + .scroll tbody tr:nth-child(1)", "kept") // the newest first
	p.shows("#h-history + .scroll tbody tr:nth-child(2)", "restored")
	body := eval[string](p, `(x => (x.open('GET', document.querySelector('a.button[download]').href, false), x.send(), x.responseText))(new XMLHttpRequest())`)
	if body != "This is /sheets/007.txt.\n" {
		t.Errorf("the mirrored bytes are %q", body)
	}
	p.shot("resource-1280-light")
	b.checks(p, "resource")
}

// reject: the files stay.
func (b *browser) reject(t *testing.T) {
	p := b.tab(t, "/source/observatory", 1280)
	p.clicks("#sure-reject summary")
	p.clicks("#sure-reject button.do")
	p.shows("#flash", "13")
	p.until(`!document.querySelector('#held')`)
	b.becomes(t, "observatory", func(r console.Row) bool { return r.Held == 0 && r.Resources == 15 })
}

// resume: a paused Source is resumed, pulled, and paused again.
func (b *browser) resume(t *testing.T) {
	p := b.tab(t, "/source/theatre", 1280)
	press := func(action string) {
		t.Helper()
		p.clicks(`form:has(input[value=` + action + `]) button.do`)
	}
	p.shows("#state", "paused")
	press("resume")
	p.shows("#flash", "resumed theatre")
	p.until(`document.querySelector('#state').textContent.includes('in step')`)
	press("pull")
	p.shows("#flash", "0 fetched, 0 deleted; in step")
	p.shows("#runs tbody", "none")
	p.clicks("#sure-pause summary")
	p.clicks("#sure-pause button.do")
	p.shows("#state", "paused")
	b.becomes(t, "theatre", func(r console.Row) bool { return r.Paused })
}

// forged: what no form of our own asks for is refused, and nothing is done.
func (b *browser) forged(t *testing.T) {
	p := b.tab(t, "/source/library", 1280)
	p.expected = append(p.expected, "403 (Forbidden)")
	status := eval[int](p, `(x => (x.open('POST', '/source/library/do', false), x.setRequestHeader('Content-Type', 'application/x-www-form-urlencoded'), x.send('action=pause'), x.status))(new XMLHttpRequest())`)
	if status != 403 {
		t.Errorf("without a token: %d", status)
	}
	eval[any](p, `(document.querySelector('input[name=csrf]').value = 'forged', 1)`)
	p.clicks(`form:has(input[value=pull]) button.do`)
	p.shows("h1", "Nothing was done")
	b.becomes(t, "library", func(r console.Row) bool { return !r.Paused })
	if at := eval[string](p, `document.querySelector('main a').getAttribute('href')`); !strings.HasPrefix(at, "/") {
		t.Errorf("no way back: %q", at)
	}
}

// withoutScripts: a browser that runs none shows the same, and does the same.
func (b *browser) withoutScripts(t *testing.T) {
	p := b.tab(t, "/", 1280)
	p.scripts(false)
	p.opens("/")
	p.shows("#live", "reloads every")
	if rows := eval[int](p, `document.querySelectorAll('.sources tbody tr .badge').length`); rows != 7 {
		t.Errorf("%d rows", rows)
	}
	p.clicks("tr#s-archive th a")
	p.until(`document.querySelectorAll('#timeline .k-notification rect').length > 0`)
	p.clicks(`.zoom nav:first-child li:last-child a`)
	p.until(`location.search.includes('zoom=year')`)
	p.until(`document.querySelectorAll('#timeline .k-baseline rect').length > 0`)
	p.clicks("#t-table summary")
	p.until(`document.querySelector('#t-table').open`)
	p.clicks(`form:has(input[value=pull]) button.do`)
	p.shows("#flash", "in step")
	p.shot("source-1280-light-without-scripts")
	p.scripts(true)
	p.opens("/")
}
