package source

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"resyncd/destination/rsdoc"
)

const (
	maxPatched = 1 << 20  // bytes of a version that patches are made for
	maxShelf   = 32 << 20 // bytes of all versions that are kept, and of all patches
	// shelfCost is about what one string on a shelf takes beside its bytes.
	shelfCost = 200
)

// patch makes one version of a JSON file into the next. Its document is named by its sum, so that it never changes.
type patch struct {
	from   [32]byte // of the version before
	sum    [32]byte // of the document
	length int64
}

func (p *patch) name() string { return hex.EncodeToString(p.sum[:]) }

// patches are made before a change is published, outside of the Source's lock.
type patches struct {
	mu        sync.Mutex
	versions  shelf // the last of each file, by its name
	documents shelf // by patch.name
}

// compare makes the patch that leads to rec, which is to be published next.
func (s *Source) compare(rec *record) {
	p := s.patches
	if p == nil || s.mediaType(rec.name) != jsonType || rec.length > maxPatched {
		return
	}
	next, err := rec.bytes()
	if err != nil || sha256.Sum256(next) != rec.sum {
		return // a change that is seen next time
	}
	p.mu.Lock()
	before := p.versions.get(rec.name)
	p.versions.put(rec.name, next)
	p.mu.Unlock()
	if document := makePatch(before, next); document != nil {
		rec.patch = &patch{sha256.Sum256(before), sha256.Sum256(document), int64(len(document))}
		p.mu.Lock()
		p.documents.put(rec.patch.name(), document)
		p.mu.Unlock()
	}
}

// bytes reads a small record.
func (rec *record) bytes() ([]byte, error) {
	b, err := rec.content.open(rec)
	if err != nil {
		return nil, err
	}
	if b.close != nil {
		defer b.close()
	}
	return io.ReadAll(io.LimitReader(b, rec.length+1))
}

// document is a patch; the oldest are gone after a while.
func (p *patches) document(name string) (text, error) {
	if p == nil {
		return text{}, errAbsent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	body := p.documents.get(name)
	if body == nil {
		return text{}, errAbsent
	}
	return text{tag: name, modified: rsdoc.NoTime, mediaType: patchType, body: body}, nil
}

// shelf keeps strings of bytes up to maxShelf; what was put there longest ago goes first.
type shelf struct {
	size  int
	items map[string]*list.Element
	order *list.List // of *shelved, oldest first
}

type shelved struct {
	name string
	body []byte
}

func newShelf() shelf { return shelf{items: map[string]*list.Element{}, order: list.New()} }

func (h *shelf) get(name string) []byte {
	if e, ok := h.items[name]; ok {
		return e.Value.(*shelved).body
	}
	return nil
}

func (h *shelf) put(name string, body []byte) {
	if e, ok := h.items[name]; ok {
		h.drop(e)
	}
	h.items[name] = h.order.PushBack(&shelved{name, body})
	for h.size += len(body) + shelfCost; h.size > maxShelf; {
		h.drop(h.order.Front())
	}
}

func (h *shelf) drop(e *list.Element) {
	one := h.order.Remove(e).(*shelved)
	delete(h.items, one.name)
	h.size -= len(one.body) + shelfCost
}

// makePatch is the JSON Patch (RFC 6902) from one document to another. It is nil where one of them does not look as
// the result of a patch is written, or where the patch is no shorter than the document.
func makePatch(before, after []byte) []byte {
	from, written := canonical(before)
	to, writable := canonical(after)
	if !written || !writable || bytes.Equal(before, after) {
		return nil
	}
	d := differ{room: len(after)}
	result := d.change(from, to)
	document := compact(d.steps)
	if d.room < 0 || len(document) >= len(after) || !bytes.Equal(compact(result), after) {
		return nil
	}
	return document
}

// canonical reads a document, and reports whether it is written as compact does.
func canonical(document []byte) (value any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber() // numbers stay as they are written
	err := d.Decode(&value)
	return value, err == nil && bytes.Equal(compact(value), document)
}

// compact writes a value as the result of a patch is: without spaces, with sorted keys, without the escapes of HTML.
func compact(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // what was read can be written
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

const (
	// diffDepth is how deep a patch reaches: every level compares all below it.
	diffDepth = 100
	stepCost  = len(`{"op":"add","path":""},`) // at least
)

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// differ goes through two documents side by side.
type differ struct {
	path  []string // to where it is
	steps []any
	room  int // bytes that the steps may still take
}

// step notes one operation, on a value below the path.
func (d *differ) step(op string, value any, below ...string) {
	if d.room < 0 {
		return // paths may be long
	}
	path := "/" + strings.Join(slices.Concat(d.path, below), "/")
	step := map[string]any{"op": op, "path": path, "value": value}
	if op == "remove" {
		delete(step, "value")
	}
	if d.room -= stepCost + len(path); d.room >= 0 {
		d.steps = append(d.steps, step)
	}
}

// change notes the steps from one value to another, and returns what they make of the first, which is used up.
func (d *differ) change(from, to any) any {
	switch from := from.(type) {
	case map[string]any:
		if to, ok := to.(map[string]any); ok && d.deeper() {
			return d.object(from, to)
		}
	case []any:
		if to, ok := to.([]any); ok && d.deeper() {
			return d.array(from, to)
		}
	}
	if !reflect.DeepEqual(from, to) {
		d.step("replace", to)
	}
	return to
}

// deeper reports whether a step may lead below the path. Libraries do not find what is below an empty name.
func (d *differ) deeper() bool {
	n := len(d.path)
	return n == 0 || n < diffDepth && d.path[n-1] != ""
}

// below is change one level deeper.
func (d *differ) below(key string, from, to any) any {
	d.path = append(d.path, key)
	result := d.change(from, to)
	d.path = d.path[:len(d.path)-1]
	return result
}

func (d *differ) object(from, to map[string]any) any {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		name := pointerEscapes.Replace(key)
		if next, ok := to[key]; ok {
			from[key] = d.below(name, from[key], next)
		} else {
			d.step("remove", nil, name)
			delete(from, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(to)) {
		if _, ok := from[key]; !ok {
			d.step("add", to[key], pointerEscapes.Replace(key))
			from[key] = to[key]
		}
	}
	return from
}

// array leaves alone what both begin and end with; behind the pairs between these, the rest goes or comes.
func (d *differ) array(from, to []any) any {
	least, front, back := min(len(from), len(to)), 0, 0
	for front < least && reflect.DeepEqual(from[front], to[front]) {
		front++
	}
	for back < least-front && reflect.DeepEqual(from[len(from)-1-back], to[len(to)-1-back]) {
		back++
	}
	end := least - back
	for i := front; i < end; i++ {
		from[i] = d.below(strconv.Itoa(i), from[i], to[i])
	}
	for range len(from) - least {
		d.step("remove", nil, strconv.Itoa(end))
	}
	for i := range len(to) - least {
		d.step("add", to[end+i], strconv.Itoa(end+i))
	}
	return slices.Replace(from, end, len(from)-back, to[end:len(to)-back]...)
}
