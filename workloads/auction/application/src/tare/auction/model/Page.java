package tare.auction.model;

import java.util.List;

/** A page of a longer list, pages counted from 0. */
public record Page<T>(long totalRecords, int page, int pageSize, List<T> results) {}
