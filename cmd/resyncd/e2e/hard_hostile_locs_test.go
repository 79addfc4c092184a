package e2e_test

import "strings"

// hostileLocs are names that want out of the mirror, into its own folder, onto a device or beyond a limit; that name no
// resource; or that another host would answer. What is in scope is mirrored under a name that harms nobody.
var hostileLocs = []badValue{
	// Up and out.
	{"{base}/../../../../etc/passwd", owed}, {"{base}/r/../../../../../etc/passwd", present}, {"{base}/r/%2e%2e/%2e%2e/%2e%2e/canary", present},
	{"{base}/r/..%2f..%2f..%2fcanary", present}, {"{base}/r/..%5c..%5ccanary", present}, {`{base}/r/..\..\..\canary`, present},
	{"{base}/r/....//....//canary", present}, {"{base}/r/..;/..;/canary", present}, {"{base}/r/.%2e/x", present}, {"{base}/r/%252e%252e%252fx", present},
	{"{base}/r/..%c0%afx", present}, {"{base}/r/..%00/x", present}, {"{base}/r/x%00.txt", present}, {"{base}/r/.", present}, {"{base}/r/..", present},
	{"{base}/r/...", present}, {"{base}/r/. /x", present}, {"{base}/r/.. /x", present}, {"{base}//etc/passwd", owed}, {"{base}/r//etc//passwd", present},
	{"{base}/r/%2fetc%2fpasswd", present}, {"{base}/r/~root/x", present}, {"{base}/r/$HOME/x", present}, {"{base}/r/`id`", present}, {"{base}/r/$(id)", present},
	{"{base}/r/-rf", present}, {"{base}/r/--help", present}, {"{base}/r/*", present}, {"{base}/r/?", present}, {"{base}/r/|x", present}, {"{base}/r/a;b", present},
	// Our own names.
	{"{base}/.resyncd/state.db", owed}, {"{base}/.resyncd/root", owed}, {"{base}/r/.resyncd/trash/x", present}, {"{base}/r/%index", present},
	{"{base}/r/%q", present}, {"{base}/r/%z/%x00000000", present}, {"{base}/r/.tmp", present}, {"{base}/r/.nfs0001", present},
	// Devices and endings.
	{"{base}/r/CON", present}, {"{base}/r/nul.txt", present}, {"{base}/r/com1/x", present}, {"{base}/r/LPT9.a", present}, {"{base}/r/aux", present},
	{"{base}/r/CONIN$", present}, {"{base}/r/x.", present}, {"{base}/r/x ", present}, {"{base}/r/x%20", present}, {"{base}/r/x::$DATA", present},
	{"{base}/r/C:/windows/x", present}, {"{base}/r/x:y", present}, {"{base}/r/\u202Etxt.exe", present}, {"{base}/r/%E2%80%AEtxt.exe", present},
	{"{base}/r/\u00E9", present}, {"{base}/r/e\u0301", present}, {"{base}/r/%C3%A9", present}, {"{base}/r/%FF%FE", present}, {"{base}/r/\U0001F4A9", present},
	{"{base}/r/%0d%0aSet-Cookie:x", present}, {"{base}/r/%1b[31m", present}, {"{base}/r/&lt;script&gt;", present}, {"{base}/r/&quot;&apos;", present},
	// File against folder, letter case, one name in two spellings.
	{"{base}/r/f", present}, {"{base}/r/f/", present}, {"{base}/r/f/g", present}, {"{base}/r/F", present}, {"{base}/r/f?", present}, {"{base}/r/f?x", present},
	{"{base}/r/f%2Fg", present}, {"{base}/r/f//g", present}, {"{base}/r/f/./g", present}, {"{base}/r/%66", present}, {"{base}/r/f%", present}, {"{base}/r/f%zz", present},
	{"{base}/r/f%2", present}, {"{base}/r/f?../../x", present}, {"{base}/r/f?%2e%2e/", present}, {"{base}/r/f#g", present}, {"{base}/r/f#../../x", present},
	// Length.
	{"{base}/r/" + strings.Repeat("x", 256), present}, {"{base}/r/" + strings.Repeat("x", 5000), present}, {"{base}/r/" + strings.Repeat("%41", 300), present},
	{"{base}/r/" + strings.Repeat("d/", 600) + "x", present}, {"{base}/r/" + strings.Repeat("\u00E9", 300), present}, {"{base}/r/q?" + strings.Repeat("y", 5000), present},
	{"{base}/r" + strings.Repeat("/", 2000), present}, {"{base}/r/" + strings.Repeat("../", 500) + "x", present},
	// No names of resources.
	{"file:///etc/passwd", refused}, {"ftp://127.0.0.1/x", refused}, {"javascript:alert(1)", refused}, {"data:text/plain,x", refused}, {"urn:isbn:1", refused},
	{"gopher://{host}/_x", refused}, {"http:", skipped}, {"http://", skipped}, {"http:///r/x", skipped}, {"http://[::", skipped}, {"http://[::1", skipped},
	{"http://{host}:99999/r/x", skipped}, {"http://{host}x/r/x", skipped}, {"http://a b/r/x", skipped}, {"://x", skipped}, {"http://%zz/", skipped},
	{"", skipped}, {"/r/relative", present}, {"r/relative2", present}, {"../r/relative3", present}, {"?x", present}, {"#x", present},
	// Somebody else's.
	{"//{host}/r/schemeless", present}, {"https://{host}/r/x", refused}, {"http://u:p@{host}/r/x", refused}, {"http://{host}@evil.example/r/x", refused},
	{"http://evil.example/r/x", refused}, {"http://evil.example#@{host}/r/x", refused}, {"http://evil.example?@{host}/r/x", refused}, {`http://evil.example\@{host}/r/x`, skipped},
	{"http://127.0.0.1/r/x", refused}, {"http://localhost/r/x", refused}, {"http://169.254.169.254/latest/meta-data/", refused}, {"http://[::1]/r/x", refused},
	{"http://0/r/x", refused}, {"http://2130706433/r/x", refused}, {"http://0x7f000001/r/x", refused}, {"http://127.1/r/x", refused}, {"HTTP://{host}/r/scheme", present},
}
