package e2e_test

import (
	"fmt"
	"testing"
)

// look: on any screen, light or dark, nothing sticks out, covers something else, or can hardly be read.
func (b *browser) look(t *testing.T) {
	for name, path := range map[string]string{
		"overview": "/", "source": "/source/archive?zoom=minute", "held": "/source/herbarium", "failing": "/source/museum", "find": "/source/library/find?q=maps",
	} {
		t.Run(name, func(t *testing.T) {
			p := b.tab(t, path, 1280)
			b.checks(p, name)
		})
	}
}

// checks looks at the page of a tab in all sizes and colours.
func (b *browser) checks(p *tab, name string) {
	p.t.Helper()
	for _, width := range []int64{360, 1280, 2560} {
		p.widens(width)
		for _, scheme := range []string{"light", "dark"} {
			p.paints(scheme)
			where := fmt.Sprintf("%s-%d-%s", name, width, scheme)
			for what, script := range map[string]string{"sticks out": sticksOut, "covers another": covers, "can hardly be read": faint} {
				if scheme == "dark" && what != "can hardly be read" {
					continue // the same as in light
				}
				if found := eval[[]string](p, script); len(found) > 0 {
					p.t.Errorf("%s: %s: %q", where, what, found)
				}
			}
			if scheme == "light" || width == 1280 {
				p.shot(where)
			}
		}
	}
	p.widens(1280)
	p.paints("light")
}

// sticksOut finds what makes the page, or a part of it, wider than it should be.
const sticksOut = `(() => {
	if (document.scrollingElement.scrollWidth <= innerWidth) {
		// On a telephone nothing has to be scrolled sideways: tables are cards there.
		const cut = innerWidth > 760 ? [] : [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)
		return cut.slice(0, 5).map(e => 'scrolls sideways: ' + e.innerText.slice(0, 120))
	}
	const wide = [...document.body.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
	return ['the body is ' + document.scrollingElement.scrollWidth + ' wide', ...wide.slice(0, 5).map(e => e.outerHTML.slice(0, 120))]
})()`

// boxes are the rectangles of all pieces of text that are seen, each clipped to what scrolls around it.
const boxes = `(() => {
	const out = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	for (let n; n = walk.nextNode();) {
		const e = n.parentElement
		if (!n.data.trim() || !e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) || e.closest('.hide, .skip, title, option, noscript, defs')) continue
		if (innerWidth <= 760 && e.closest('thead')) continue
		const range = document.createRange()
		range.selectNodeContents(n)
		for (const q of range.getClientRects()) {
			let [l, t, r, b] = [q.left, q.top, q.right, q.bottom]
			for (let a = e; a; a = a.parentElement) {
				if (!a.matches('.scroll, .why, .time, .time svg')) continue
				const c = a.getBoundingClientRect()
				l = Math.max(l, c.left); t = Math.max(t, c.top); r = Math.min(r, c.right); b = Math.min(b, c.bottom)
			}
			if (r - l > 1 && b - t > 1) out.push({ n, e, text: n.data.trim().slice(0, 40), l, t, r, b })
		}
	}
	return out
})()`

// covers finds text that lies on other text.
const covers = `(() => {
	const all = ` + boxes + `, found = []
	all.sort((a, b) => a.t - b.t)
	for (let i = 0; i < all.length; i++) for (let j = i + 1; j < all.length && all[j].t < all[i].b; j++) {
		const a = all[i], b = all[j]
		const w = Math.min(a.r, b.r) - Math.max(a.l, b.l), h = Math.min(a.b, b.b) - Math.max(a.t, b.t)
		if (a.n !== b.n && w > 2 && h > 5 && found.length < 5) found.push(a.text + ' | ' + b.text)
	}
	return found
})()`

// faint finds text with less contrast than 4.5 (WCAG 1.4.3), where what lies behind it is one colour.
const faint = `(() => {
	const lin = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4
	const rgb = c => c.match(/[\d.]+/g).map(Number)
	const lum = c => { const [r, g, b] = rgb(c); return .2126 * lin(r) + .7152 * lin(g) + .0722 * lin(b) }
	const found = new Set()
	for (const { e, text } of ` + boxes + `) {
		if (e.closest('svg') || e.closest('[disabled]')) continue
		let back = e
		while (back && (rgb(getComputedStyle(back).backgroundColor)[3] ?? 1) === 0) back = back.parentElement
		const f = lum(getComputedStyle(e).color), g = lum(back ? getComputedStyle(back).backgroundColor : 'rgb(255, 255, 255)')
		const ratio = (Math.max(f, g) + .05) / (Math.min(f, g) + .05)
		if (ratio < 4.5) found.add(ratio.toFixed(1) + ' ' + text)
	}
	return [...found].slice(0, 5)
})()`
