// Keeps a page as its server would draw it now: asks for the same page when the event stream tells of news and moves what
// has changed into place, so that focus, scroll and what was opened stay. Without this file all pages work the same.
(() => {
  'use strict'
  const byId = id => document.getElementById(id)
  const main = byId('main'), live = byId('live')
  const parse = t => Date.parse(t)
  let skew = 0 // how far this clock is ahead of the server's
  const readClock = () => { const n = byId('now'); if (n) skew = Date.now() - parse(n.dateTime) }
  readClock()

  // Times, as long() and away() of words.go write them.
  const two = (n, u, r, s) => r ? `${n} ${u} ${r} ${s}` : `${n} ${u}`
  const long = s => {
    s = Math.floor(Math.abs(s))
    const D = 86400, H = 3600
    if (s < 60) return `${s} s`
    if (s < 600) return two(Math.floor(s / 60), 'min', s % 60, 's')
    if (s < H) return `${Math.floor(s / 60)} min`
    if (s < 10 * H) return two(Math.floor(s / H), 'h', Math.floor(s % H / 60), 'min')
    if (s < 2 * D) return `${Math.floor(s / H)} h`
    if (s < 10 * D) return two(Math.floor(s / D), 'd', Math.floor(s % D / H), 'h')
    return Math.floor(s / D).toLocaleString('en') + ' d'
  }
  const tick = () => {
    const now = Date.now() - skew
    for (const t of document.querySelectorAll('time.ago')) {
      const d = (parse(t.dateTime) - now) / 1000
      const text = d >= 1 ? 'in ' + long(d) : long(d) + ' ago'
      if (t.textContent !== text) t.textContent = text
    }
    for (const l of document.querySelectorAll('.lease')) {
      const from = parse(l.dataset.from), until = parse(l.nextElementSibling.firstElementChild.dateTime)
      if (!(until > from)) continue
      const share = Math.min(100, Math.max(0, 100 * (until - now) / (until - from)))
      l.firstElementChild.setAttribute('width', share.toFixed(2) + '%')
      l.classList.toggle('low', share <= 10)
    }
  }

  document.addEventListener('pointerover', e => { // the overview leaves titles out, there are so many
    const t = e.target.closest('time.ago:not([title])')
    if (t) t.title = t.dateTime.replace('T', ' ').replace('Z', ' UTC')
  })

  // Changes the nodes below a into those below b, keeping what is the same. Elements with an id are the same wherever they stand.
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || '') === (b.id || '')
  const attributes = (a, b) => {
    const own = n => n === 'open' && a.nodeName === 'DETAILS' || n === 'value' && a.type === 'search' || n === 'title' && a.nodeName === 'TIME'
    for (const { name, value } of [...b.attributes]) if (!own(name) && a.getAttribute(name) !== value) a.setAttribute(name, value)
    for (const { name } of [...a.attributes]) if (!own(name) && !b.hasAttribute(name)) a.removeAttribute(name)
  }
  const morph = (a, b) => {
    if (a.nodeType !== 1) { if (a.data !== b.data) a.data = b.data; return }
    if (a.hasAttribute('data-keep')) return
    attributes(a, b)
    const keyed = new Map()
    for (const c of a.children) if (c.id) keyed.set(c.id, c)
    let at = a.firstChild
    for (const n of [...b.childNodes]) {
      let m = n.id ? keyed.get(n.id) : at
      if (!m || !alike(m, n)) { a.insertBefore(n, at); continue }
      if (m === at) at = at.nextSibling
      else a.insertBefore(m, at)
      morph(m, n)
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next }
  }

  const states = () => {
    const all = new Map()
    for (const r of document.querySelectorAll('.sources tr[id]')) all.set(r.id, [r.querySelector('th a').textContent, r.querySelector('.badge bdi').textContent])
    const one = byId('state')
    if (one) all.set('state', [document.querySelector('h1 bdi').textContent, one.textContent.trim()])
    return all
  }
  let told = '', down = false
  const say = (text, on) => {
    live.className = 'live ' + (on ? 'on' : 'off')
    if (told !== text) live.textContent = told = text
  }
  const tell = before => {
    const news = []
    for (const [id, [name, state]] of states()) {
      const was = before.get(id)
      if (was && was[1] !== state) news.push(`${name}: ${state}`)
    }
    say(news.length ? news.slice(0, 3).join(', ') + (news.length > 3 ? ` and ${news.length - 3} more` : '') : told && !down ? told : 'live', true)
    down = false
  }

  // Asks for a page and takes it over; one at a time, and the last one asked for wins.
  let busy = false, again = false, rest = 0, timer = 0
  const take = async (href, push) => {
    if (busy && !push) { again = true; return }
    const ticket = take.ticket = {}
    busy = true
    const began = Date.now()
    try {
      const answer = await fetch(href, { cache: 'no-store', headers: { Accept: 'text/html' } })
      const text = await answer.text()
      if (take.ticket !== ticket) return
      const page = new DOMParser().parseFromString(text, 'text/html')
      const fresh = page.getElementById('main')
      if (!fresh || !answer.ok) throw new Error(answer.status)
      const file = d => d.querySelector('script[src]').getAttribute('src')
      if (file(page) !== file(document)) { location.reload(); return } // another version of the program
      const before = states(), focus = document.activeElement
      if (push) history.pushState(null, '', href)
      document.title = page.title
      morph(main, fresh)
      byId('now').replaceWith(page.getElementById('now'))
      readClock(); tick()
      if (focus && focus.isConnected && focus !== document.activeElement && focus !== document.body) focus.focus({ preventScroll: true })
      tell(before)
    } catch {
      if (take.ticket !== ticket) return
      down = true
      say('no answer: this is how it was at ' + byId('now').textContent.slice(-8), false)
      later(5000)
    } finally {
      if (take.ticket === ticket) {
        rest = Date.now() + Math.max(700, 4 * (Date.now() - began))
        busy = false
        if (again) { again = false; refresh() }
      }
    }
  }
  const later = ms => { clearTimeout(timer); timer = setTimeout(refresh, ms) }
  const here = () => location.pathname + location.search
  const refresh = () => {
    if (document.hidden || dragging) { later(1000); return }
    const wait = rest - Date.now()
    if (wait > 0) { later(wait); return }
    take(here(), false)
  }

  // The timeline: links without a jump, keys and dragging.
  let dragging = null
  const shift = (figure, share) => {
    const from = +figure.dataset.from, until = +figure.dataset.until, u = new URL(byId('t-back').href) // has set and zoom
    u.searchParams.set('until', new Date(until + share * (until - from)).toISOString())
    take(u.pathname + u.search, true)
  }
  const closer = by => {
    const all = [...document.querySelectorAll('.zoom nav:first-child a')], i = all.findIndex(a => a.hasAttribute('aria-current'))
    if (all[i + by]) take(all[i + by].pathname + all[i + by].search, true)
  }
  document.addEventListener('click', e => {
    const a = e.target.closest('a[data-soft]')
    if (!a || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return
    e.preventDefault()
    const u = new URL(a.getAttribute('href') ?? a.href.baseVal, location.href)
    take(u.pathname + u.search, true)
    const c = byId('timeline')
    if (c && c.getBoundingClientRect().top < 0) c.scrollIntoView()
  })
  document.addEventListener('keydown', e => {
    const f = e.target.closest && e.target.closest('.time')
    if (!f || e.ctrlKey || e.metaKey || e.altKey) return
    const act = { ArrowLeft: () => shift(f, -.25), ArrowRight: () => shift(f, .25), '+': () => closer(-1), '=': () => closer(-1), '-': () => closer(1) }[e.key]
    if (act) { e.preventDefault(); act() }
  })
  document.addEventListener('pointerdown', e => {
    const f = e.target.closest('.time')
    if (f && !e.button && !e.target.closest('a')) dragging = { f, x: e.clientX, moved: 0 }
  })
  document.addEventListener('pointermove', e => {
    if (!dragging) return
    dragging.moved = e.clientX - dragging.x
    dragging.f.classList.toggle('drag', Math.abs(dragging.moved) > 4)
  })
  const drop = () => {
    const d = dragging
    dragging = null
    if (!d) return
    d.f.classList.remove('drag')
    if (Math.abs(d.moved) > 4) shift(d.f, -d.moved / d.f.clientWidth)
  }
  document.addEventListener('pointerup', drop)
  document.addEventListener('pointercancel', () => { dragging = null })
  addEventListener('popstate', () => take(here(), false))

  // The filter of the overview, while it is being typed.
  const q = byId('q')
  if (q && q.form.getAttribute('action') === '/') {
    let typing = 0
    q.addEventListener('input', () => {
      clearTimeout(typing)
      typing = setTimeout(() => {
        history.replaceState(null, '', q.value ? '/?q=' + encodeURIComponent(q.value) : '/')
        rest = 0
        refresh()
      }, 200)
    })
  }
  document.addEventListener('submit', e => {
    for (const b of e.target.querySelectorAll('button.do')) setTimeout(() => { b.disabled = true; b.textContent = 'Working…' })
  })

  tick()
  setInterval(() => { if (!document.hidden) tick() }, 1000)
  if (!main.dataset.live) return
  let stream = null, first = true
  const listen = () => {
    if (document.hidden || !window.EventSource) return
    stream = new EventSource('/api/events')
    stream.addEventListener('hello', () => { if (first) say('live', true); else refresh(); first = false })
    stream.addEventListener('change', refresh)
    stream.onerror = () => {
      if (stream && stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(() => { if (!stream) listen() }, 30000) }
      later(3000)
    }
  }
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { if (stream) stream.close(); stream = null } else if (!stream) listen()
  })
  listen()
  setInterval(refresh, 1000 * main.dataset.live) // for what no event tells, and browsers without streams
})()
