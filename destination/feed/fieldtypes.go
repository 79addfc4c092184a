package feed

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// validate describes how a field's value deviates from resource-finder.md; "" for not at all. An empty value erases and
// is valid. A deviating value is kept all the same.
func validate(f Field) string {
	value := strings.TrimSpace(f.Value)
	if value == "" {
		return ""
	}
	switch f.Name {
	case "available_beds", "total_beds":
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return "no integer"
		}
	case "services":
		for _, s := range strings.Split(value, ",") {
			if !slices.Contains(permitted(f.Name), strings.TrimSpace(s)) {
				return "no set of known services"
			}
		}
	case "location":
		if !isLocation(value) {
			return `no "latitude,longitude" in degrees`
		}
	default:
		if p := permitted(f.Name); p != nil && !slices.Contains(p, value) {
			return "none of the permitted values"
		}
	}
	return ""
}

// permitted are the documented values of a field; nil if none are documented.
func permitted(field string) []string {
	switch field {
	case "services":
		return []string{
			"GENERAL_SURGERY", "ORTHOPEDICS", "NEUROSURGERY", "VASCULAR_SURGERY", "INTERNAL_MEDICINE", "CARDIOLOGY",
			"INFECTIOUS_DISEASE", "PEDIATRICS", "POSTOPERATIVE_CARE", "REHABILITATION", "OBSTETRICS_GYNECOLOGY",
			"MENTAL_HEALTH", "DIALYSIS", "LAB", "X_RAY", "CT_SCAN", "BLOOD_BANK", "MORTUARY_SERVICES",
		}
	case "organization_type":
		return []string{"PUBLIC", "FOR_PROFIT", "UNIVERSITY", "COMMUNITY", "NGO", "FAITH_BASED", "MILITARY", "MIXED"}
	case "category":
		return []string{"HOSPITAL", "CLINIC", "MOBILE_CLINIC", "DISPENSARY"}
	case "construction":
		return []string{"REINFORCED_CONCRETE", "UNREINFORCED_MASONRY", "WOOD_FRAME", "ADOBE"}
	case "operational_status":
		return []string{"OPERATIONAL", "NO_SURGICAL_CAPACITY", "FIELD_HOSPITAL", "FIELD_WITH_HOSPITAL",
			"CLOSED_OR_CLOSING"}
	case "reachable_by_road", "can_pick_up_patients":
		return []string{"TRUE", "FALSE"}
	}
	return nil
}

func isLocation(value string) bool {
	lat, lon, ok := strings.Cut(value, ",")
	return ok && within(lat, 90) && within(lon, 180)
}

func within(degrees string, most float64) bool {
	v, err := strconv.ParseFloat(strings.TrimSpace(degrees), 64)
	return err == nil && math.Abs(v) <= most // NaN is not
}
