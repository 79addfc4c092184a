package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// files are the files below a folder by path, with the hash of what they hold; ours are left out.
func files(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == ".resyncd" {
				return filepath.SkipDir
			}
			return err
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		out[filepath.ToSlash(rel)] = fmt.Sprintf("%x", sha256.Sum256(body))
		return err
	})
	return out, err
}

// cmdSame compares two trees by hash.
func cmdSame(ts *testscript.TestScript, args []string) error {
	a, err := files(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	b, err := files(ts.MkAbs(args[1]))
	if err != nil {
		return err
	}
	if diff := cmp.Diff(a, b); diff != "" {
		return fmt.Errorf("the folders differ (-%s +%s):\n%s", args[0], args[1], diff)
	}
	return nil
}

// cmdReaches waits until a folder holds so many files.
func cmdReaches(ts *testscript.TestScript, args []string) error {
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return poll(args[0]+" holds "+args[1]+" files", func() (bool, error) {
		found, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*"))
		return len(found) >= want, err
	})
}

// cmdGrows waits until a folder holds more files than it did.
func cmdGrows(ts *testscript.TestScript, args []string) error {
	files := filepath.Join(ts.MkAbs(args[0]), "*")
	before, err := filepath.Glob(files)
	if err != nil {
		return err
	}
	return poll(args[0]+" grows", func() (bool, error) {
		found, err := filepath.Glob(files)
		return len(found) > len(before), err
	})
}

// cmdFlip turns one bit of a file and leaves its size and time as they were: bit-rot.
func cmdFlip(ts *testscript.TestScript, args []string) error {
	name := ts.MkAbs(args[0])
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	body, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	body[len(body)/2] ^= 1
	if err := os.WriteFile(name, body, 0o600); err != nil {
		return err
	}
	return os.Chtimes(name, info.ModTime(), info.ModTime())
}

// cmdSubst puts the script's variables into a file.
func cmdSubst(ts *testscript.TestScript, args []string) error {
	return os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600)
}

// tree describes everything below a folder, with modes, sizes and times.
func tree(dir string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintf(&b, "%s %s %d %s\n", name, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if os.IsNotExist(err) {
		return "nothing\n", nil
	}
	return b.String(), err
}

// cmdRemember notes how a folder is, for untouched.
func cmdRemember(ts *testscript.TestScript, args []string) error {
	now, err := tree(ts.MkAbs(args[0]))
	worldOf(ts).trees[args[0]] = now
	return err
}

func cmdUntouched(ts *testscript.TestScript, args []string) error {
	now, err := tree(ts.MkAbs(args[0]))
	if err != nil {
		return err
	}
	if diff := cmp.Diff(worldOf(ts).trees[args[0]], now); diff != "" {
		return fmt.Errorf("%s was touched:\n%s", args[0], diff)
	}
	return nil
}

// value finds the value at a dotted path in a line of stdout; lines count from 1, or from the end with -1.
func value(ts *testscript.TestScript, line, path string) (any, error) {
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n += len(lines) + 1
	}
	if n < 1 || n > len(lines) {
		return nil, fmt.Errorf("there is no line %s", line)
	}
	dec := json.NewDecoder(strings.NewReader(lines[n-1]))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("line %s: %w", line, err)
	}
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' }) {
		switch in := v.(type) {
		case map[string]any:
			found, ok := in[part]
			if !ok {
				return nil, fmt.Errorf("no %s in %s", part, path)
			}
			v = found
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) {
				return nil, fmt.Errorf("no item %s in %s", part, path)
			}
			v = in[i]
		default:
			return nil, fmt.Errorf("nothing below %s", part)
		}
	}
	return v, nil
}

// cmdJSON compares a value with JSON, or, if it is a text, with a /regular expression/.
func cmdJSON(ts *testscript.TestScript, args []string) error {
	v, err := value(ts, args[0], args[1])
	if err != nil {
		return err
	}
	got, err := json.Marshal(v)
	if err != nil {
		return err
	}
	want := args[2]
	if re, ok := strings.CutPrefix(want, "/"); ok {
		s, _ := v.(string)
		if !regexp.MustCompile(strings.TrimSuffix(re, "/")).MatchString(s) {
			return fmt.Errorf("%s is %s, want %s", args[1], got, want)
		}
		return nil
	}
	if string(got) != want {
		return fmt.Errorf("%s is %s, want %s", args[1], got, want)
	}
	return nil
}

// cmdKeys insists on the keys of an object; "." is the whole line.
func cmdKeys(ts *testscript.TestScript, args []string) error {
	v, err := value(ts, args[0], args[1])
	if err != nil {
		return err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no object", args[1])
	}
	want := strings.Split(args[2], ",")
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(object))); diff != "" {
		return fmt.Errorf("keys of %s (-want +got):\n%s", args[1], diff)
	}
	return nil
}
