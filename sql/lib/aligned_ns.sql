-- Macro: an instant of a rank's own clock on the run's clock.
--
-- at_ns        BIGINT  The instant, on the rank's own clock.
-- offset_ns    BIGINT  The rank's, as in rank_clocks.
-- drift_ppb    DOUBLE  Likewise; NULL: none.
-- reference_ns BIGINT  Likewise; NULL: no drift.
--
-- Returns: BIGINT Nanoseconds since the epoch; NULL where at_ns or offset_ns is.
-- How: only the time since reference_ns becomes a DOUBLE: nanoseconds since the epoch do not fit one.
at_ns - offset_ns - coalesce(round(drift_ppb * (at_ns - reference_ns) / 1e9), 0)::BIGINT
