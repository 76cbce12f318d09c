-- Macro: the least rise of a line over the span of its points that their scatter does not make: an aggregate.
--
-- x_ns       DOUBLE Where a point stands.
-- error_ns   DOUBLE How far it is from the line.
-- rounded_ns DOUBLE What points deviate by at least, the same for all.
--
-- Returns: DOUBLE Nanoseconds; NULL without points.
-- How: four standard errors of a slope times the span, and three deviations, more where few points bear the line: their
-- number is count / kurtosis. Deviations are median ones, which a few outliers do not move: 1.4826 of them are a standard
-- deviation.
greatest(
    3 * (1 + pow(6 * (kurtosis_pop(x_ns) + 3) / count(*), 2)),
    4 * 1.4826 * (max(x_ns) - min(x_ns)) / (sqrt(count(*)) * nullif(stddev_pop(x_ns), 0))
) * greatest(mad(error_ns), any_value(rounded_ns))
