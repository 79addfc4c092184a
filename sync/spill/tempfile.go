package spill

import (
	"errors"
	"os"
)

// tempFile is removed at once, so that a kill leaves nothing; on Windows only dropTemp can remove it.
func tempFile(dir, pattern string) (*os.File, error) {
	file, err := os.CreateTemp(dir, pattern)
	if err == nil {
		_ = os.Remove(file.Name())
	}
	return file, err
}

// dropTemp closes and removes a file of tempFile; nil is none.
func dropTemp(file *os.File) error {
	if file == nil {
		return nil
	}
	err := file.Close()
	if rerr := os.Remove(file.Name()); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}
