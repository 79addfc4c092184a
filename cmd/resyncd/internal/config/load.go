package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"
)

const maxFile = 2 << 20

var standardFiles = [...]string{"./resyncd.yaml", "/etc/resyncd/resyncd.yaml"}

// Find names the file to load: flag, else $RESYNCD_CONFIG, else the first standard file that exists, else "".
func Find(flag string, env []string) (string, error) {
	if path := Named(flag, env); path != "" {
		return path, nil
	}
	for _, path := range standardFiles {
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for config %s: %s", path, reason(err))
		}
	}
	return "", nil
}

// Named is Find for `sync URL DIR`: no file counts that was not named.
func Named(flag string, env []string) string {
	if flag != "" {
		return flag
	}
	return variables(env)[configVariable]
}

// Load reads the file at path ("" means none), lays the variables of env and then flags over it, checks everything and
// reads the secret files. A bad configuration is an *Error with all its problems.
func Load(path string, env []string, flags ...Flag) (*Config, error) {
	var data []byte
	var mode fs.FileMode
	if path != "" {
		var err error
		if data, mode, err = readFile(path); err != nil {
			return nil, fmt.Errorf("read config %s: %s", path, reason(err))
		}
	}
	cfg, r := decode(path, data, env, flags...)
	if inline := r.secretFiles(cfg); inline {
		if warn := exposed(path, mode); warn != "" {
			cfg.Warnings = append(cfg.Warnings, warn)
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

func readFile(path string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %s", Size(maxFile))
	}
	return data, info.Mode(), err
}

// decode is Load without any file.
func decode(name string, data []byte, env []string, flags ...Flag) (*Config, *report) {
	r, cfg := newReport(name), Default()
	var sources *yaml.Node
	if root := r.parse(data); root != nil {
		sources = r.section("", root, cfg.keys())
	}
	r.overrule(env, flags, cfg)
	if !r.given("mirror") {
		cfg.Mirror = cfg.DataDir + "/mirror"
	}
	if _, given := r.origins["callback.base_url"]; !given {
		cfg.Callback.BaseURL = baseFor(&cfg.Callback)
	}
	if sources != nil {
		r.sources(sources, flags, cfg)
	}
	r.check(cfg)
	r.warnCallback(cfg)
	return cfg, r
}
