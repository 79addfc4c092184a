// Package plan turns the entries of documents and notifications into wants, one commit per batch. It knows neither who
// read an entry nor who carries out the work.
package plan
