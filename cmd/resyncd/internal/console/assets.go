package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// asset is one embedded file; its name changes with its bytes, so that it may be kept for ever.
type asset struct {
	kind string
	body []byte
}

var loadAssets = sync.OnceValues(func() (map[string]asset, map[string]string) {
	byPath, byName := map[string]asset{}, map[string]string{}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml"}
	for name, kind := range map[string]string{"console.css": ".css", "console.js": ".js", "favicon.svg": ".svg"} {
		body, err := assetFiles.ReadFile(path.Join("assets", name))
		if err != nil {
			panic("console: " + err.Error()) // a test loads them all
		}
		sum := sha256.Sum256(body)
		at := "/assets/" + strings.TrimSuffix(name, kind) + "." + hex.EncodeToString(sum[:6]) + kind
		byPath[at], byName[name] = asset{kind: kinds[kind], body: body}, at
	}
	return byPath, byName
})

func assets() map[string]asset {
	byPath, _ := loadAssets()
	return byPath
}

func at(name string) string {
	_, byName := loadAssets()
	return byName[name]
}

func (a asset) answer(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body)
}
