// Package pull reads a Source's documents and notifications into wants and coverage. It knows neither when a pull is
// due nor who fetches the resources.
package pull
